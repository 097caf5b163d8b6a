const [url, token] = process.argv.slice(2);
const ask = (method, path, body, headers) =>
  fetch(url + "/call/" + path, {
    method,
    body: body === undefined ? undefined : JSON.stringify(body),
    headers: { Authorization: "Bearer " + token, "Content-Type": "application/json", ...headers },
  });

const key = encodeURIComponent("js/ü");
const pay = [];
for (let i = 0; i < 2; i++) pay.push(await (await ask("POST", "grain/door.account/add/" + key, { n: 5 }, { "Idempotency-Key": "k1" })).json());
console.log(...pay);
const bad = await ask("POST", "grain/door.account/add/" + key, { n: -9 });
const problem = await bad.json();
console.log(bad.status, problem.detail, problem.ran);
const text = await (await ask("POST", "task/door.count", 3, { Accept: "text/event-stream" })).text();
const seen = text.split("\n\n").map((e) => e.match(/^event: (.*)/m)?.[1] ?? e.match(/^data: (.*)/m)?.[1]).filter((e) => e !== undefined);
console.log(...seen);
await ask("PUT", "task/door%2Fsquare/js", 7);
console.log(((await (await ask("GET", "task/door%2Fsquare/js?wait=30s")).json()) * 2) / 7);
