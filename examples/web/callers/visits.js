// Counts a visit once, however often it has to ask: node visits.js URL NAME [TOKEN]
const [url, name, token] = process.argv.slice(2);
const headers = { "Idempotency-Key": crypto.randomUUID() };
if (token) headers.Authorization = "Bearer " + token;
const path = "/call/grain/visitor/visit/" + encodeURIComponent(name);

const visit = async () => {
  for (;;) {
    try {
      const answer = await fetch(url + path, { method: "POST", headers, signal: AbortSignal.timeout(60_000) });
      if (answer.ok) return await answer.json();
      if (![429, 503, 504].includes(answer.status)) throw Error(await answer.text(), { cause: answer.status });
    } catch (e) {
      if (e.cause > 0) throw e; // else the answer is lost: the same key makes it safe to ask again
    }
    await new Promise((done) => setTimeout(done, 500));
  }
};

visit().then(console.log, (e) => { console.error(e.message); process.exit(1); });
