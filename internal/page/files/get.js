// Get: all that is known of one thing.
import { useState } from './vendor/hooks.js';
import { Cmd, Func, Id, Node, State, Table, ago, bytes, dur, html, moreMatch, resources, to, usePoll, word } from './lib.js';

const list = pairs => html`<dl>${pairs.filter(([, v]) => v || v === 0).map(([name, v]) => html`<dt>${name}</dt><dd>${v}</dd>`)}</dl>`;
const nodes = all => (all || []).map((n, i) => html`${i ? ', ' : ''}<${Node} name=${n} />`);

function Value({ v }) {
  return html`<h2>Value</h2>${list([
    ['state', v.state], ['error', v.error && html`<pre>${v.error}</pre>`], ['size', v.size && bytes(v.size)], ['made by', v.name && html`<${Func} name=${v.name} />`], ['owner', v.owner && html`<${Node} name=${v.owner} />`],
    ['copies on', v.copies?.length && nodes(v.copies)], ['submitted by', v.submitter && html`<${Node} name=${v.submitter} />`], ['taken over by', v.adopter && html`<${Node} name=${v.adopter} />`],
    ['attempt', v.attempt], ['when lost', v.recipe ? 'made again' : v.no_recipe && `not made again: ${v.no_recipe}`],
    ['inputs', v.inputs?.length && html`<${Inputs} of=${v} />`],
  ])}`;
}

function Inputs({ of }) {
  return html`<ul class="tree top">${of.inputs.map(i => html`<li>${i.name} <${Id} id=${i.id} />: ${i.state}${i.owner ? html` on <${Node} name=${i.owner} />` : ''}${i.inputs?.length ? html`<${Inputs} of=${i} />` : ''}</li>`)}
    ${of.more ? html`<li class="dim">and ${of.more} more</li>` : ''}</ul>`;
}

function Scheduling({ s }) {
  return html`${s.waits?.map(w => html`<h2>Where it is: <${Node} name=${w.node} /> <small>${w.stage}</small></h2>${list([
    ['for', w.for], ['since', w.waited && dur(w.waited)], ['asks for', w.asks && resources(w.asks, '')], ['labels', w.labels && Object.entries(w.labels).map(([k, v]) => `${k}=${v}`).join(', ')],
    ['conditions', w.conditions?.join('; ')], ['short', w.short?.join('; ')], ['before it', w.before && `${w.before}: ${(w.first || []).join(', ')}`], ['inputs', w.inputs?.join(', ')],
    ['stacks', w.stacks?.length && html`<pre>${w.stacks.join('\n\n')}</pre>`],
    ['nodes', w.nodes?.length && w.nodes.map(n => html`<div><${Node} name=${n.node} />: ${n.never ? 'never, ' : ''}${n.why}${n.short ? `; ${n.short.join('; ')}` : ''}</div>`)],
  ])}`)}
  ${s.placed?.length > 0 && html`<h2>Placed</h2>${s.placed.map(p => html`<div>on <${Node} name=${p.node} /> by <${Node} name=${p.by} /> ${ago(p.time)}: ${(p.reasons || []).join('; ')}</div>`)}`}`;
}

const work = t => html`${list([
  ['function', html`<${Func} name=${t.function} />`], ['id', html`<${Id} id=${t.id} text=${t.id} />`], ['node', html`<${Node} name=${t.node} />`], ['submitted by', html`<${Node} name=${t.of || t.node} />`],
  ['state', t.state], ['lasts', dur(t.lasts)], ['for', t.for], ['attempt', t.attempt], ['name', t.name],
  ['waits for', t.on?.length && html`${t.on.map(o => html`<div>${o.name} <${Id} id=${o.id} />${o.grain ? html` at <${Id} id=${o.grain} />` : ''}</div>`)}${t.open > t.on.length ? `and ${t.open - t.on.length} more` : ''}`],
])}`;

function Thing({ t, awaits }) {
  const name = t.kind === 'grain' ? t.id : t.name || t.id;
  return html`<section class="thing"><h2>${t.kind} <span class="id">${name}</span> ${t.name && html`<small class="id">${t.id}</small>`}${t.namespace && html` <small>of ${t.namespace}</small>`}</h2>
    ${(t.tasks || []).map(work)}
    ${t.grains?.length > 0 && t.grains.map(g => list([['on', html`<${Node} name=${g.node} />`], ['mailbox', g.mailbox], ['turn', g.turn && html`<${Func} name=${g.turn} />, ${dur(g.lasts)}`], ['late', g.late], ['waits', g.waits && 'for what it asks for of the node']]))}
    ${awaits.length > 0 && html`<h2>Who waits for it</h2>${awaits.map(w => html`<div><${Func} name=${w.function} /> <${Id} id=${w.id} /> on <${Node} name=${w.node} />, ${dur(w.lasts)}</div>`)}`}
    ${t.scheduling && html`<${Scheduling} s=${t.scheduling} />`}
    ${t.failure && html`<h2>Last failure <small>${ago(t.failure.last)} on ${t.failure.node}</small></h2><pre>${t.failure.panic ? 'panic: ' : ''}${t.failure.text}${t.failure.stack ? '\n\n' + t.failure.stack : ''}</pre>`}
    ${t.value && html`<${Value} v=${t.value} />`}
    ${(t.states || []).map(s => html`<h2>State ${s.name} <small>${s.type} ${bytes(s.bytes)} ${s.object && html`object <${Id} id=${s.object} />`} ${s.why}</small></h2>
      ${(s.value !== undefined || s.text) && html`<pre>${s.value !== undefined ? JSON.stringify(s.value, null, 2) : s.text}${s.cut ? `\n${s.cut} bytes more` : ''}</pre>`}`)}
    ${t.group && html`${list([['state', t.group.state], ['strategy', t.group.strategy], ['goes with', t.group.detached ? 'detached' : t.group.owner]])}
      <${Table} what="bundles" rows=${t.group.bundles || []} cols=${[['bundle', b => resources(b.resources)], ['node', b => html`<${Node} name=${b.node} />`]]} />`}
    <p><${Cmd} text=${`raysys get ${word(name)}`} />${t.kind !== 'grain' && t.kind !== 'object' && html`<${Cmd} text=${`raysys cancel ${word(t.id)}`} />`}${(t.tasks || t.grains || []).slice(0, 1).map(x => html`<${Cmd} text=${`raysys stack ${word(x.node)}`} />`)}</p></section>`;
}

export function Get({ id }) {
  const [text, set] = useState(id);
  const a = usePoll(id ? 'get/' + encodeURIComponent(id) : '');
  const waits = usePoll(id ? 'waits?limit=500' : '');
  const awaits = t => (waits.data?.waits || []).filter(w => (w.on || []).some(o => o.id === t.id || (t.kind === 'grain' && o.grain === t.id)));
  return html`<form class="filters" onSubmit=${e => { e.preventDefault(); location.hash = to('get', {}, text.trim()); }}>
      <input type="search" class="first" value=${text} onInput=${e => set(e.target.value)} placeholder="an id, KIND/KEY or a name ( / )" aria-label="an id, KIND/KEY or a name" /><button class="plain">get</button></form>
    ${id && html`<${State} of=${a} />`}
    ${id && a.data && a.data.things.map(t => html`<${Thing} key=${t.kind + t.id} t=${t} awaits=${awaits(t)} />`)}
    ${id && a.data && a.data.count > a.data.things.length && html`<p class="more">${moreMatch(a.data.count - a.data.things.length)}: give more of the id</p>`}`;
}
