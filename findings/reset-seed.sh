#!/usr/bin/env bash
# nle 1.3.0 (gymnasium 1.2.0): what env.reset(seed=7) makes of the game.
#
# Guess: the same game each time, as gymnasium's Env.reset says.
# Seen:  another game each time, without a warning: the game's seeds are those of env.unwrapped.seed(core, disp, reseed) alone. Meta-World 3.1.1 is like it:
#        its goals are drawn from the seed of gymnasium.make(..., seed=7).
#
# raysys shows wrappers that give the seed to the game: tools/testenvs/wrappers/seeded.py.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check --no-cache-dir nle==1.3.0 gymnasium==1.2.0 numpy==2.4.6
cat >main.py <<'END2'
import gymnasium
import nle

env = gymnasium.make("NetHackScore-v0")


def games(seeded):
    seen = set()
    for _ in range(3):
        if seeded:
            env.unwrapped.seed(7, 7, False)
        env.reset(seed=7)
        seen.add(env.unwrapped.get_seeds()[:2])
    return len(seen)


print("reset(seed=7) three times:", games(False), "games")
print("unwrapped.seed(7, 7, False) before each:", games(True), "game")
END2
venv/bin/python main.py >got 2>err || { cat err; exit 1; }
cat >want <<'END2'
reset(seed=7) three times: 3 games
unwrapped.seed(7, 7, False) before each: 1 game
END2
cat got
diff want got
