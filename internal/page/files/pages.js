// The pages, but for Get. Each asks for what it shows, with the filters that are in the URL.
import { useEffect, useRef, useState } from './vendor/hooks.js';
import { Bar, Chart, Cmd, Filter, Func, Id, Node, State, Table, ago, bytes, dur, has, html, maxRows, missed, moreMatch, num, query, rate, resources, save, to, usePoll, word } from './lib.js';

const names = list => [...new Set(list)].sort();

// alerts is what is bad, the worst first.
function alerts(status, failures) {
  const list = [];
  const late = (status?.nodes || []).flatMap(n => n.late || []).sort((a, b) => b.lasts - a.lasts), id = g => `${g.kind}/${g.key}`;
  for (const g of late.slice(0, 10)) list.push(html`<${Id} id=${id(g)} /> is in ${g.turn} on <b>${g.node}</b> for ${dur(g.lasts)}, ${g.late} <${Cmd} text=${`raysys get ${word(id(g))}`} />`);
  for (const n of status?.nodes || []) {
    if (n.state !== 'active' || n.error) list.push(html`<b>${n.name}</b> is ${n.state}${n.error ? `: ${n.error}` : ''}`);
    if (n.memory?.resident > 0.8 * n.memory?.limit) list.push(html`<b>${n.name}</b> has ${Math.floor(100 * n.memory.resident / n.memory.limit)} % of the memory that it may have <${Cmd} text=${`raysys profile ${word(n.name)} heap.pprof`} />`);
    for (const d of n.devices || []) if (d.sick) list.push(html`${d.uuid} of <b>${n.name}</b> is sick: ${d.cause}`);
  }
  const led = (status?.shards || []).filter(s => !s.node);
  if (led.length) list.push(`${led.length} of ${status.shards.length} shards ${led.length === 1 ? 'has' : 'have'} no leader: ${led.map(s => s.shard).join(', ')}`);
  const builds = names((status?.nodes || []).filter(n => n.build && n.role !== 'driver').map(n => n.build));
  if (builds.length > 1) list.push(`nodes run different builds: ${builds.join(', ')}`);
  const on = m => Object.entries(m.versions).map(([v, nodes]) => (v ? '' : 'not ') + nodes.join(' ')).join(' / ');
  for (const m of (status?.mixed || []).slice(0, 5)) list.push(`builds differ in ${m.function}: ${on(m)}`);
  const last = folded(failures?.failures || []).filter(f => Date.now() - new Date(f.last) < 60000);
  if (last.length) list.push(html`<a href=${to('failures')}>${last.length === 1 ? '1 kind of failure' : `${last.length} kinds of failures`} in the last minute</a>, the last of ${last[0].function}: ${last[0].text.slice(0, 200)}`);
  return list;
}

function Timeline() {
  const [state, set] = useState('');
  const record = () => { set('recording for 10 s…'); save('timeline?for=10s', 'timeline.json').then(() => set('timeline.json is for ui.perfetto.dev'), e => set(e.message)); };
  return html`<p><button class="plain" disabled=${state.startsWith('recording')} onClick=${record}>record a timeline</button> <span class="dim">${state}</span></p>`;
}

export function Overview({ status, functions, history }) {
  const failures = usePoll('failures?limit=50');
  const waiting = usePoll('tasks?state=waiting&limit=5');
  const s = status.data, bad = alerts(s, failures.data);
  const last = history.rates();
  const demand = s?.demand || [], groups = s?.groups || [];
  const oldest = (functions.data?.functions || []).filter(f => f.oldest).sort((a, b) => b.oldest - a.oldest).slice(0, 5);
  return html`
    ${bad.length > 0 && html`<ul class="alerts">${bad.map(b => html`<li>${b}</li>`)}</ul>`}
    <${State} of=${status} />
    <div class="charts">
      <${Chart} name="runs ended" values=${last.runs} show=${rate} /><${Chart} name="errors" values=${last.errors} show=${rate} />
      <${Chart} name="running" values=${last.running} /><${Chart} name="waiting" values=${last.waiting} />
    </div>
    <h2>Nodes</h2>
    ${s && html`<${Table} what="nodes" rows=${s.nodes} key=${n => n.name + n.incarnation} cols=${[
      ['node', n => html`<${Node} name=${n.name} />`],
      ['state', n => html`<span class=${n.state === 'active' ? 'good' : n.state === 'draining' ? 'warn' : 'bad'}>${n.state === 'active' ? 'up' : n.state}</span>`],
      ['role', n => n.role], ['build', n => html`<span class="id">${n.build || '–'}</span>`], ['up', n => dur(n.up), , 'n'],
      ['CPU', n => html`<${Bar} used=${n.error ? 0 : n.resources.cpu - n.free.cpu} total=${n.resources.cpu} text=${`${+(n.resources.cpu - n.free.cpu).toFixed(2)}/${n.resources.cpu}`} />`],
      ['memory', n => html`<span title=${`heap ${bytes(n.memory?.heap)}`}><${Bar} alarm=${0.8} used=${n.memory?.resident || 0} total=${n.memory?.limit || 0} text=${`${bytes(n.memory?.resident)}/${bytes(n.memory?.limit)}`} /></span>`],
      ['asked for', n => html`<${Bar} used=${n.error ? 0 : n.resources.memory - n.free.memory} total=${n.resources.memory} text=${`${bytes(n.resources.memory - n.free.memory)}/${bytes(n.resources.memory)}`} />`],
      ['GPU', n => (n.devices || []).map(d => html`<div title=${d.model}><${Bar} used=${d.total - d.free} total=${d.total} text=${`${d.sick ? 'sick ' : ''}${d.busy >= 0 ? d.busy + ' %' : ''}`} /></div>`)],
      ['queued', n => num(n.queued), , 'n'], ['guests', n => num(n.inbound), , 'n'], ['grains', n => num(Object.values(n.grains || {}).reduce((a, b) => a + b, 0)), , 'n'],
      ['lease left', n => (n.lease_left ? dur(n.lease_left) : '–'), , 'n'],
    ]} />`}
    ${(demand.length > 0 || groups.length > 0) && html`<h2>Work that waits for resources</h2>
      <${Table} what="work" rows=${[...demand.map(d => ({ what: resources(d.resources) + Object.entries(d.labels || {}).map(([k, v]) => `, ${k}=${v}`).join(''), ...d,
        why: d.group ? (d.unplaced ? `its bundle of group ${d.group} has no node yet` : `in a bundle of group ${d.group}`) : d.unplaced ? 'no node can take it yet' : 'on a node that has it' })),
      ...groups.map(g => ({ what: `group ${g.group}`, count: g.count, oldest: g.oldest, why: `${g.held} of ${g.bundles.length} bundles have a node` }))]} cols=${[
        ['asks for', d => d.what], ['count', d => num(d.count), , 'n'], ['oldest', d => dur(d.oldest), , 'n'], ['why', d => d.why],
      ]} />`}
    <h2>Oldest waiting</h2>
    ${oldest.length > 0 && html`<${Table} what="functions" rows=${oldest} cols=${[['function', f => html`<${Func} name=${f.name} />`], ['waiting', f => num(f.waiting), , 'n'], ['oldest wait', f => dur(f.oldest), , 'n']]} />`}
    ${waiting.data && html`<${Table} what="waiting tasks" rows=${waiting.data.tasks} count=${0} cols=${taskCols} />`}
    <${Timeline} />`;
}

const taskCols = [
  ['task', t => html`<${Id} id=${t.id} />`, t => t.id], ['function', t => html`<${Func} name=${t.function} />`, t => t.function], ['node', t => html`<${Node} name=${t.node} />`, t => t.node],
  ['state', t => t.state, t => t.state], ['lasts', t => dur(t.lasts), t => t.lasts, 'n'],
  ['waits for', t => html`<span class="long">${t.on?.length ? t.on.map(o => o.name).join(', ') + (t.open > t.on.length ? ` and ${t.open - t.on.length} more` : '') : t.for || '–'}</span>`],
  ['attempt', t => t.attempt, t => t.attempt, 'n'], ['of node', t => html`<${Node} name=${t.of || t.node} />`], ['name', t => t.name || (t.detached ? 'detached' : '–')],
];

// folded joins the failures of all nodes whose texts differ in digits alone.
function folded(list) {
  const by = new Map();
  for (const f of list) {
    const key = JSON.stringify([f.function, f.kind, f.text.replace(/\d+/g, '#')]), one = by.get(key);
    if (!one) by.set(key, { ...f, nodes: [f.node] });
    else Object.assign(one, { count: one.count + f.count, left: (one.left || 0) + (one.nodes.includes(f.node) ? 0 : f.left || 0), nodes: names([...one.nodes, f.node]), first: one.first < f.first ? one.first : f.first });
  }
  return [...by.values()];
}

const failureCols = [
  ['function', f => html`<${Func} name=${f.function} />`, f => f.function],
  ['error', f => html`<details><summary class="long">${f.panic ? 'panic: ' : ''}${f.text}</summary>${f.work && html`<p>${f.work}</p>`}<pre>${f.text}${f.stack ? '\n\n' + f.stack : ''}</pre></details>`],
  ['count', f => num(f.count) + (f.left ? '+' : ''), f => f.count, 'n'], ['last', f => ago(f.last), f => f.last, 'n'], ['first', f => ago(f.first), f => f.first, 'n'],
  ['nodes', f => f.nodes.map((n, i) => html`${i ? ', ' : ''}<${Node} name=${n} />`)], ['example', f => html`<${Id} id=${f.id} />`],
];

export function Functions({ p, functions, history }) {
  if (p.f) return html`<${OneFunction} p=${p} functions=${functions} history=${history} />`;
  const rates = history.functions(), of = f => rates.get(f.kind + f.name);
  const rows = (functions.data?.functions || []).filter(f => has(f.name, p.q) && (!p.kind || f.kind === p.kind));
  const left = (functions.data?.count || 0) - (functions.data?.functions.length || 0);
  return html`<div class="filters"><${Filter} name="q" value=${p.q} label="name" search /><${Filter} name="kind" value=${p.kind} label="kind" of=${['task', 'call']} /></div>
    <${State} of=${functions} />
    ${functions.data && html`<${Table} what="functions" rows=${rows} count=${rows.length + left} key=${f => f.kind + f.name} sort=${p.sort || '-runs'} cols=${functionCols(of)} />`}`;
}

const wait = ns => (ns && ns < 1e6 ? '<1ms' : dur(ns)); // it is known to a millisecond

const functionCols = of => [
  ['function', f => html`<${Func} name=${f.name} />`, f => f.name], ['kind', f => f.kind, f => f.kind], ['runs', f => num(f.runs), f => f.runs, 'n'],
  ['rate', f => rate(of(f)), f => of(f) || 0, 'n'], ['errors', f => html`<span class=${f.errors ? 'bad' : ''}>${num(f.errors)}</span>`, f => f.errors, 'n'],
  ['p50', f => dur(f.p50), f => f.p50, 'n'], ['p99', f => dur(f.p99), f => f.p99, 'n'], ['wait p50', f => wait(f.wait_p50), f => f.wait_p50 || 0, 'n'], ['wait p99', f => wait(f.wait_p99), f => f.wait_p99 || 0, 'n'], ['running', f => num(f.running), f => f.running, 'n'],
  ['waiting', f => num(f.waiting), f => f.waiting, 'n'], ['oldest wait', f => dur(f.oldest), f => f.oldest || 0, 'n'],
];

function OneFunction({ p, functions, history }) {
  const one = (functions.data?.functions || []).filter(f => f.name === p.f), rates = history.functions();
  const task = one.some(f => f.kind === 'task'), call = one.some(f => f.kind === 'call');
  const tasks = usePoll(task ? query('tasks', { function: p.f, limit: maxRows }) : '');
  const failures = usePoll(`failures?limit=${maxRows}`);
  return html`<p><a href=${to('functions')}>all functions</a></p><${State} of=${functions} />
    ${functions.data && html`<${Table} what=${`function ${p.f}`} rows=${one} cols=${functionCols(f => rates.get(f.kind + f.name))} />`}
    <p>${one.map(f => Object.entries(f.outcomes || {}).map(([name, n]) => html`<span class="dim">${name} ${num(n)} </span>`))}</p>
    ${call && html`<p><a href=${to('grains', { kind: p.f.split('.')[0] })}>grains of this kind</a></p>`}
    <p><a href=${to('logs', { function: p.f })}>what it logs</a></p>
    ${task && html`<h2>Its tasks</h2><${State} of=${tasks} />${tasks.data && html`<${Table} what="tasks" rows=${tasks.data.tasks} count=${tasks.data.count} key=${t => t.id + t.node} sort=${p.sort} cols=${taskCols} filter="the page Tasks" />`}`}
    <h2>Its failures</h2>${one.filter(f => f.left).map(f => html`<p>${num(f.left)} more not looked at: there were more than 20 in a second</p>`)}${failures.data && html`<${Table} what="failures" rows=${folded(failures.data.failures.filter(f => f.function === p.f))} cols=${failureCols} />`}
    <${Cmd} text=${`raysys list tasks --function ${word(p.f)}`} />`;
}

export function Failures({ p }) {
  const a = usePoll(`failures?limit=${maxRows}`);
  const rows = folded(a.data?.failures || []).filter(f => (has(f.text, p.q) || has(f.function, p.q)) && (!p.node || f.nodes.includes(p.node)));
  return html`<div class="filters"><${Filter} name="q" value=${p.q} label="function or text" search /><${Filter} name="node" value=${p.node} label="node" of=${names((a.data?.failures || []).map(f => f.node))} /></div>
    <${State} of=${a} />${a.data && html`<${Table} what="failures" rows=${rows} count=${rows.length + a.data.count - a.data.failures.length} key=${f => f.function + f.text} sort=${p.sort} cols=${failureCols} />`}`;
}

const nodesOf = status => (status.data?.nodes || []).map(n => n.name);

export function Tasks({ p, status, functions }) {
  const a = usePoll(query('tasks', { state: p.state, function: p.function, node: p.node, detached: p.detached, limit: maxRows }));
  const rows = (a.data?.tasks || []).filter(t => has(t.function, p.q) || has(t.id, p.q) || has(t.name, p.q));
  return html`<div class="filters"><${Filter} name="q" value=${p.q} label="id, function or name" search />
      <${Filter} name="state" value=${p.state} label="state" of=${['waiting', 'running', 'blocked']} /><${Filter} name="node" value=${p.node} label="node" of=${nodesOf(status)} />
      <${Filter} name="function" value=${p.function} label="function" of=${names([...(functions.data?.functions || []).filter(f => f.kind === 'task').map(f => f.name), ...(p.function ? [p.function] : [])])} />
      <${Filter} name="detached" value=${p.detached} label="detached alone" of=${true} /></div>
    <${State} of=${a} />${a.data && html`<${Table} what="tasks" rows=${rows} count=${rows.length + a.data.count - a.data.tasks.length} key=${t => t.id + t.node} sort=${p.sort} cols=${taskCols} />`}
    ${p.node && html`<${Cmd} text=${`raysys stack ${word(p.node)}`} /><${Cmd} text=${`raysys drain ${word(p.node)}`} />`}`;
}

// Waits are trees: from what nothing waits for down to the work at the end. What was shown is named alone.
export function Waits({ p }) {
  const a = usePoll(`waits?limit=${maxRows}`);
  const by = new Map(), turns = new Map(), awaited = new Set(), shown = new Set();
  for (const t of [...(a.data?.waits || []), ...(a.data?.ends || [])]) { by.set(t.id, t); if (t.grain) turns.set(t.grain, t); }
  const next = on => by.get(on.id) || turns.get(on.grain);
  for (const t of a.data?.waits || []) for (const on of t.on || []) if (next(on)) awaited.add(next(on).id);
  function tree(t, depth) {
    const again = shown.has(t.id);
    shown.add(t.id);
    return html`<li><${Func} name=${t.function} /> <${Id} id=${t.id} /> on <${Node} name=${t.node} />: <span class=${t.state === 'blocked' ? 'dim' : 'warn'}>${t.state}${t.for ? ` for ${t.for}` : ''}</span>, ${dur(t.lasts)}${again ? ', as above' : ''}
      ${!again && depth < 32 && (t.on?.length > 0) && html`<ul class="tree">${t.on.map(on => {
        const n = next(on);
        if (!n) return html`<li>${on.name} <${Id} id=${on.id} />: ${on.node ? html`at <${Node} name=${on.node} />` : 'no node says where it is'}</li>`;
        return n.id === on.id ? tree(n, depth + 1) : html`<li>${on.name} <${Id} id=${on.id} />: in the mailbox, behind<ul class="tree">${tree(n, depth + 2)}</ul></li>`;
      })}${t.open > t.on.length ? html`<li class="dim">and ${num(t.open - t.on.length)} more</li>` : ''}</ul>`}</li>`;
  }
  const matches = t => has(t.function, p.q) || has(t.id, p.q) || has(t.node, p.q);
  const list = (a.data?.waits || []).filter(matches);
  const roots = [...list.filter(t => p.q || !awaited.has(t.id)), ...list.filter(t => !p.q && awaited.has(t.id))];
  return html`<div class="filters"><${Filter} name="q" value=${p.q} label="function, id or node" search /></div><${State} of=${a} />
    ${a.data && (roots.length ? html`<ul class="tree top">${roots.slice(0, maxRows).map(t => !shown.has(t.id) && tree(t, 0))}</ul>` : html`<p class="dim">nothing waits for other work</p>`)}
    ${a.data && a.data.count > list.length && !p.q && html`<p class="more">${moreMatch(a.data.count - list.length)}: narrow them with the filter above</p>`}`;
}

// Grains are searched, by kind and key: a cluster has too many for a list of all.
export function Grains({ p, status }) {
  const kinds = new Map();
  for (const n of status.data?.nodes || []) for (const [kind, count] of Object.entries(n.grains || {})) kinds.set(kind, (kinds.get(kind) || 0) + count);
  const asked = p.kind || p.key;
  const a = usePoll(query('grains', { kind: p.kind, key: p.key, node: p.node, limit: asked ? maxRows : 10 })); // all of a cluster are too many
  return html`<div class="filters"><${Filter} name="key" value=${p.key} label="how the key begins" search /><${Filter} name="kind" value=${p.kind} label="kind" of=${names([...kinds.keys(), ...(p.kind ? [p.kind] : [])])} />
      <${Filter} name="node" value=${p.node} label="node" of=${nodesOf(status)} /></div>
    ${!asked && html`<${Table} what="grains in memory" rows=${[...kinds].sort((x, y) => y[1] - x[1])} cols=${[['kind', k => html`<a href=${to('grains', { kind: k[0] })}>${k[0]}</a>`], ['in memory', k => num(k[1]), , 'n']]} />`}
    <${State} of=${a} />${!asked && html`<h2>The fullest mailboxes</h2>`}
    ${a.data && html`<${Table} what="grains" rows=${a.data.grains} count=${asked ? a.data.count : 0} key=${g => g.kind + '/' + g.key + g.node} sort=${p.sort} cols=${[
      ['grain', g => html`<${Id} id=${g.kind + '/' + g.key} />`, g => g.kind + '/' + g.key], ['node', g => html`<${Node} name=${g.node} />`, g => g.node], ['mailbox', g => num(g.mailbox), g => g.mailbox, 'n'],
      ['turn', g => (g.turn ? html`<${Func} name=${g.turn} />` : '–')], ['lasts', g => dur(g.lasts), g => g.lasts, 'n'],
      ['state', g => (g.waits ? 'waits for what it asks for of the node' : html`<span class=${g.late ? 'bad' : ''}>${g.late || (g.turn ? 'busy' : 'idle')}</span>`)],
    ]} />`}`;
}

export function Objects({ p, status }) {
  const a = usePoll(query('objects', { node: p.node, limit: maxRows }));
  const held = o => [...(o.names || []).map(n => `name ${n}`), ...Object.entries(o.holders || {}).map(([n, c]) => `${n} (${c})`), ...(o.kept?.length ? [`replicas on ${o.kept}`] : []),
    ...(o.files?.length ? [`files on ${o.files}`] : []), ...[[o.refs, 'reference'], [o.pins, 'pin'], [o.users, 'user']].filter(([n]) => n).map(([n, w]) => `${n} ${w}${n > 1 ? 's' : ''} here`)].join(', ') || 'its own process';
  const rows = (a.data?.objects || []).filter(o => has(o.id, p.q) || has(o.why, p.q) || (o.names || []).some(n => has(n, p.q)));
  return html`<div class="filters"><${Filter} name="q" value=${p.q} label="id, name or why" search /><${Filter} name="node" value=${p.node} label="node" of=${nodesOf(status)} /></div>
    <${State} of=${a} silent=${(a.data?.stores || []).filter(s => s.error).map(s => `${s.node}: ${s.error}`)} />
    ${a.data && html`<${Table} what="stores" rows=${a.data.stores} key=${s => s.node + s.incarnation} cols=${[
      ['node', s => html`<${Node} name=${s.node} />`], ['objects', s => num(s.objects), , 'n'], ['memory', s => html`<${Bar} alarm used=${s.used} total=${s.budget} text=${`${bytes(s.used)}/${bytes(s.budget)}`} />`],
      ['disk', s => bytes(s.disk), , 'n'], ['spilled', s => num(s.spilled), , 'n'], ['restored', s => num(s.restored), , 'n'], ['dropped', s => num(s.dropped), , 'n'],
      ['lost', s => html`<span class=${s.lost ? 'bad' : ''}>${num(s.lost)}</span>`, , 'n'], ['sent', s => bytes(s.sent), , 'n'], ['received', s => bytes(s.received), , 'n'],
    ]} /><h2>Objects <small>${num(a.data.total.objects)}, ${bytes(a.data.total.bytes)}</small></h2>
    <${Table} what="objects" rows=${rows} count=${rows.length + a.data.total.objects - a.data.total.listed} key=${o => o.id + o.node} sort=${p.sort} cols=${[
      ['object', o => html`<${Id} id=${o.id} />`, o => o.id], ['node', o => html`<${Node} name=${o.node} />`, o => o.node], ['size', o => bytes(o.size), o => o.size, 'n'],
      ['forms', o => (o.forms || []).join(', ') || 'not fetched'], ['since', o => (o.since.startsWith('0001') ? '–' : ago(o.since)), o => o.since, 'n'],
      ['why', o => html`<span class=${o.lost ? 'bad' : ''}>${o.lost ? `lost: ${o.lost}` : o.kept_for ? `replica for ${o.kept_for}` : o.owner ? `of ${o.owner}, ${o.why}` : o.why}</span>`], ['held by', held],
    ]} />`}`;
}

export function Schedules({ p }) {
  const a = usePoll(query('schedules', { prefix: p.prefix, limit: maxRows }));
  const due = t => (!t ? '–' : new Date(t) > Date.now() ? `in ${dur((new Date(t) - Date.now()) * 1e6)}` : ago(t));
  const state = s => (s.why ? html`<span class="warn">${s.why}</span>` : s.waits ? html`waits on <${Node} name=${s.node} /> for ${s.waits}` : s.paused ? 'paused' : s.running?.length ? html`runs on <${Node} name=${s.node} />` : 'waits for its time');
  return html`<div class="filters"><${Filter} name="prefix" value=${p.prefix} label="how the name begins" search /></div><${State} of=${a} />
    ${a.data && html`<${Table} what="schedules" rows=${a.data.schedules} count=${a.data.count} key=${s => s.namespace + '/' + s.name} sort=${p.sort} cols=${[
      ['schedule', s => html`<${Id} id=${s.name} text=${s.name} />`, s => s.name], ['when', s => s.when], ['does', s => html`<span class="long">${s.work}</span>`, s => s.work],
      ['next', s => due(s.next), s => s.next || '9', 'n'], ['last', s => due(s.last), s => s.last || '', 'n'], ['missed', missed, s => s.missed, 'n'], ['state', state],
      ['last error', s => html`<span class="bad long">${s.last_error || ''}</span>`],
    ]} />`}
    ${a.data?.schedules.length === 1 && ['run', a.data.schedules[0].paused ? 'resume' : 'pause', 'delete'].map(verb => html`<${Cmd} text=${`raysys schedule ${verb} ${word(a.data.schedules[0].name)}`} />`)}`;
}

export function Logs({ p, status }) {
  const a = usePoll(query('logs', { node: p.node, driver: p.driver, function: p.function, lines: maxRows }));
  const end = useRef(), lines = (a.data?.lines || []).filter(l => has(l.text, p.q) || has(JSON.stringify(l.fields ?? ''), p.q)).slice(-maxRows);
  useEffect(() => { if (!p.still && end.current) end.current.scrollTop = end.current.scrollHeight; });
  const one = l => `${new Date(l.time).toISOString().slice(11, 23)} ${l.node} ${l.output || l.level || ''} ${l.function ? l.function + ' ' : ''}${l.text}${l.fields ? ' ' + JSON.stringify(l.fields) : ''}${l.stack ? '\n' + l.stack : ''}\n`;
  return html`<div class="filters"><${Filter} name="q" value=${p.q} label="text" search /><${Filter} name="node" value=${p.node} label="node" of=${nodesOf(status)} />
      <${Filter} name="driver" value=${p.driver} label="driver" /><${Filter} name="function" value=${p.function} label="function" /><${Filter} name="still" value=${p.still} label="do not follow" of=${true} /></div>
    <${State} of=${a} />
    ${a.data && (lines.length ? html`<pre class="log" ref=${end} tabindex="0">${lines.map(l => html`<span class=${{ error: 'bad', warn: 'warn' }[l.level] || ''}>${one(l)}</span>`)}</pre>` : html`<p class="dim">no lines${a.data.drivers ? `: there are some of the functions ${(a.data.functions || []).join(', ')}, and of the drivers ${a.data.drivers.join(', ')}` : ''}</p>`)}
    ${a.data && a.data.matched > lines.length && html`<p class="more">${moreMatch(a.data.matched - lines.length)}: narrow them with the filter above</p>`}
    <${Cmd} text=${`raysys logs -f${p.node ? ` --node ${word(p.node)}` : ''}${p.function ? ` --function ${word(p.function)}` : ''}`} />`;
}
