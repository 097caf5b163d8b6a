// The shell: navigation, theme, token, and what is asked on every page: nodes and functions.
import { render } from './vendor/preact.js';
import { useEffect, useReducer, useState } from './vendor/hooks.js';
import { Guard, Refused, html, route, setToken, to, usePoll } from './lib.js';
import * as pages from './pages.js';
import { Get } from './get.js';

const all = { overview: pages.Overview, functions: pages.Functions, failures: pages.Failures, tasks: pages.Tasks, waits: pages.Waits, grains: pages.Grains, objects: pages.Objects, schedules: pages.Schedules, logs: pages.Logs, get: Get };

// History is what the tab has seen of the functions in the last two minutes: totals, and counts of each for ten seconds.
class History {
  seen = [];

  add({ functions, asked }) {
    if (this.seen.at(-1)?.at === asked) return;
    const now = { at: asked, runs: 0, errors: 0, running: 0, waiting: 0, by: new Map() };
    for (const f of functions) {
      for (const k of ['runs', 'errors', 'running', 'waiting']) now[k] += f[k];
      now.by.set(f.kind + f.name, f.runs);
    }
    this.seen.push(now);
    while (this.seen.length > 121 || now.at - this.seen[0].at > 121) this.seen.shift();
    if (this.seen.length > 10) this.seen.at(-11).by = null;
  }

  // rates are what each second had; a node that left takes its counts along, which is no rate below 0.
  rates() {
    const r = { runs: [], errors: [], running: [], waiting: [] };
    this.seen.forEach((s, i) => {
      const before = this.seen[i - 1];
      r.running.push(s.running);
      r.waiting.push(s.waiting);
      if (before) for (const k of ['runs', 'errors']) r[k].push(Math.max(0, (s[k] - before[k]) / (s.at - before.at)));
    });
    return r;
  }

  functions() {
    const r = new Map(), last = this.seen.at(-1), first = this.seen.find(s => s.by);
    if (!last || first === last) return r;
    for (const [name, runs] of last.by) r.set(name, Math.max(0, (runs - (first.by.get(name) ?? 0)) / (last.at - first.at)));
    return r;
  }
}
const history = new History();

function theme(next) {
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  const chosen = next || localStorage.getItem('raysys theme') || (dark ? 'dark' : 'light');
  if (next) localStorage.setItem('raysys theme', next);
  document.documentElement.dataset.theme = chosen;
  return chosen;
}

function Token({ why }) {
  const [text, set] = useState('');
  return html`<form class="token" onSubmit=${e => { e.preventDefault(); setToken(text.trim()); }}>
    <p>${why}</p><input type="password" class="first" value=${text} onInput=${e => set(e.target.value)} aria-label="token" autocomplete="off" /><button class="plain">go on</button></form>`;
}

function App() {
  const [, again] = useReducer(n => n + 1, 0);
  const [look, setLook] = useState(theme());
  useEffect(() => {
    const keys = e => {
      const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName);
      if (e.key === '/' && !typing && !e.ctrlKey && !e.metaKey) { e.preventDefault(); const first = document.querySelector('input.first'); if (first) { first.focus(); first.select(); } }
      if (e.key === 'Escape' && typing) e.target.blur();
    };
    const system = () => setLook(theme());
    addEventListener('hashchange', again);
    addEventListener('keydown', keys);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', system);
  }, []);
  const r = route();
  const status = usePoll('status'), functions = usePoll('functions?limit=500', d => history.add(d));
  const Page = all[r.page];
  const other = look === 'dark' ? 'light' : 'dark';
  if (status.error instanceof Refused) return html`<${Token} why=${status.error.message} />`;
  return html`<header><b>raysys</b><span class="dim">${status.data?.cluster || (status.data ? 'one process' : '')}</span>
      <nav aria-label="pages">${Object.keys(all).map(name => html`<a href=${to(name)} class=${name === r.page ? 'on' : ''} aria-current=${name === r.page ? 'page' : undefined}>${name[0].toUpperCase() + name.slice(1)}</a>`)}</nav>
      ${status.error && html`<span class="bad">no answer</span>`}<button class="plain" onClick=${() => setLook(theme(other))}>${other}</button></header>
    <main><${Guard} key=${r.page + '/' + r.id}>${Page ? html`<${Page} key=${r.page + '/' + r.id} id=${r.id} p=${r.params} status=${status} functions=${functions} history=${history} />` : html`<p>There is no page ${r.page}.</p>`}<//></main>`;
}

render(html`<${App} />`, document.getElementById('app'));
