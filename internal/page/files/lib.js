// What all pages share: the route in the URL, questions to the API, tables, charts and how numbers read.
import { h, Component } from './vendor/preact.js';
import { useEffect, useState } from './vendor/hooks.js';
import htm from './vendor/htm.js';

export const html = htm.bind(h);
export const maxRows = 500;
export const moreMatch = n => `${num(n)} more ${n === 1 ? 'matches' : 'match'}`;

// The route is #/page/id?filter=value: whoever has the URL sees the same.
export function route() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const [page, ...id] = path.split('/');
  let text = id.join('/');
  try { text = decodeURIComponent(text); } catch { /* as it was typed */ }
  return { page: page || 'overview', id: text, params: Object.fromEntries(new URLSearchParams(query || '')) };
}

export function to(page, params = {}, id) {
  const q = new URLSearchParams(Object.entries(params).filter(([, v]) => v !== '' && v != null && v !== false));
  return `#/${page}${id === undefined ? '' : '/' + encodeURIComponent(id)}${q.size ? '?' + q : ''}`;
}

// A filter that is typed makes no entry in the history.
export function setParam(name, value) {
  const r = route();
  history.replaceState(null, '', to(r.page, { ...r.params, [name]: value }, r.id || undefined));
  dispatchEvent(new Event('hashchange'));
}

const tokenKey = 'raysys token';
export const setToken = t => { sessionStorage.setItem(tokenKey, t); dispatchEvent(new Event('token')); };

export class Refused extends Error {}

export async function ask(path, signal) {
  const token = sessionStorage.getItem(tokenKey);
  const r = await fetch('api/' + path, { signal, cache: 'no-store', headers: token ? { Authorization: 'Bearer ' + token } : {} });
  const body = await r.json().catch(() => ({ error: `the answer is no JSON: ${r.status}` }));
  if (r.status === 401) throw new Refused(body.error);
  if (!r.ok) throw new Error(body.error || `status ${r.status}`);
  return { ...body, asked: Number(r.headers.get('Raysys-Asked')) / 1000 };
}

// save asks for a file, and gives it to the browser to keep.
export async function save(path, name) {
  const token = sessionStorage.getItem(tokenKey);
  const r = await fetch('api/' + path, { cache: 'no-store', headers: token ? { Authorization: 'Bearer ' + token } : {} });
  if (!r.ok) throw new Error((await r.json().catch(() => ({}))).error || `status ${r.status}`);
  const link = document.createElement('a');
  link.href = URL.createObjectURL(await r.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

// An answer serves all who ask within a second: a tab that asks a little later gets another one each time.
const pause = 1050;

// usePoll asks about once a second while the tab is seen, and never twice at once. path '' asks for nothing. What came last stays beside an error.
export function usePoll(path, seen) {
  const [state, set] = useState({});
  useEffect(() => {
    if (!path) return undefined;
    let timer, ended = false, asks = null;
    async function once() {
      clearTimeout(timer);
      if (ended || asks || document.hidden) return;
      const began = Date.now();
      asks = new AbortController();
      try {
        const data = await ask(path, asks.signal);
        if (!ended) { set({ data, path }); if (seen) seen(data); }
      } catch (error) {
        if (!ended) set(s => ({ data: s.path === path ? s.data : undefined, path, error }));
      }
      asks = null;
      if (!ended) timer = setTimeout(once, Math.max(50, pause - (Date.now() - began)));
    }
    once();
    document.addEventListener('visibilitychange', once);
    addEventListener('token', once);
    return () => {
      ended = true;
      clearTimeout(timer);
      if (asks) asks.abort();
      document.removeEventListener('visibilitychange', once);
      removeEventListener('token', once);
    };
  }, [path]);
  return state.path === path ? state : {};
}

// query is a path of the API with the parameters that have a value.
export function query(kind, params) {
  const q = new URLSearchParams(Object.entries(params).filter(([, v]) => v));
  return kind + (q.size ? '?' + q : '');
}

export const has = (text, part) => !part || String(text ?? '').toLowerCase().includes(part.toLowerCase());

const units = [['d', 864e11], ['h', 36e11], ['m', 6e10], ['s', 1e9], ['ms', 1e6], ['µs', 1e3], ['ns', 1]];
export function dur(ns) {
  if (!ns || ns < 0) return '–';
  const i = units.findIndex(([, n]) => ns >= n);
  const [name, n] = units[i];
  if (i < 3) {
    const rest = Math.floor((ns % n) / units[i + 1][1]);
    return Math.floor(ns / n) + name + (rest ? rest + units[i + 1][0] : '');
  }
  return (ns / n).toPrecision(3).replace(/\.?0+$/, m => (m.startsWith('.') ? '' : m)) + name;
}
export const ago = time => dur(Math.max(1e9, Math.floor((Date.now() - new Date(time)) / 1000) * 1e9)) + ' ago';
export const num = n => (n ?? 0).toLocaleString('en');
export const rate = n => (n === undefined ? '–' : n >= 100 ? num(Math.round(n)) : n.toFixed(n >= 10 || n === 0 ? 0 : 1)) + (n === undefined ? '' : '/s');
export function bytes(n) {
  if (!n) return '0';
  const i = Math.min(5, Math.floor(Math.log2(Math.abs(n)) / 10));
  return (n / 1024 ** i).toFixed(i && n / 1024 ** i < 100 ? 1 : 0) + ' ' + ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'][i];
}
export function resources(r, nothing = 'nothing') {
  const list = [];
  if (r?.cpu) list.push(`CPU ${r.cpu}`);
  if (r?.gpu) list.push(`GPU ${r.gpu}`);
  if (r?.gpu_model) list.push(r.gpu_model);
  if (r?.gpu_memory) list.push(`${bytes(r.gpu_memory)} a GPU`);
  if (r?.memory) list.push(bytes(r.memory));
  for (const [name, n] of Object.entries(r?.custom || {})) list.push(`${name} ${n}`);
  return list.join(', ') || nothing;
}

// missed is the number of times that a schedule missed, with the reasons: "12: 9 overlap, 3 late". Reasons that only another version knows come last.
const reasons = ['overlap', 'late', 'full', 'unknown'];
export function missed(s) {
  const left = s.left || {}, others = Object.keys(left).filter(r => !reasons.includes(r)).sort();
  const parts = [...reasons, ...others].filter(r => left[r] > 0).map(r => `${num(left[r])} ${r || '–'}`);
  return num(s.missed) + (parts.length ? ': ' + parts.join(', ') : '');
}

// Links to what a name stands for.
export const Node = ({ name }) => (name ? html`<a href=${to('tasks', { node: name })}>${name}</a>` : '–');
export const Func = ({ name }) => html`<a class="long" href=${to('functions', { f: name })}>${name}</a>`;
export const Id = ({ id, text }) => (id ? html`<a class="id" href=${to('get', {}, id)} title=${id}>${text ?? (id.length > 12 && !id.includes('/') ? id.slice(0, 12) : id)}</a>` : '–');

// alarm is the part from which on it is red; true stands for 0.95.
export function Bar({ used, total, text, alarm }) {
  if (!total) return html`<span class="dim">–</span>`;
  const part = Math.min(1, Math.max(0, used / total));
  return html`<svg class="bar" role="img" aria-label=${text} viewBox="0 0 100 8" preserveAspectRatio="none"><rect class=${alarm && part > (alarm === true ? 0.95 : alarm) ? 'full' : ''} width=${part * 100} height="8" /></svg>${text}`;
}

// Chart draws values of the last two minutes, one a second.
export function Chart({ name, values, show = num }) {
  const top = Math.max(1e-9, ...values);
  const points = values.map((v, i) => `${(120 - values.length + i + 1).toFixed(1)},${(50 - 46 * (v / top)).toFixed(1)}`).join(' ');
  return html`<figure><figcaption><span>${name}</span><span>${values.length ? `${show(values.at(-1))}, at most ${show(Math.max(...values))}` : '–'}</span></figcaption>
    <svg class="chart" viewBox="0 0 120 54" preserveAspectRatio="none" role="img" aria-label=${name}><polyline points=${points} /></svg></figure>`;
}

// Table shows rows by the columns: [name, what is shown, what it is sorted by where it can be]. The order is in the URL: ?sort=-runs.
export function Table({ cols, rows, key, count, what, sort, filter = 'the filter above' }) {
  const by = sort || '', down = by.startsWith('-'), at = cols.find(c => c[2] && c[0] === by.replace(/^-/, ''));
  if (at) {
    const value = at[2];
    rows = [...rows].sort((a, b) => { const x = value(a), y = value(b); return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1); });
  }
  const more = Math.max(count ?? 0, rows.length) - Math.min(rows.length, maxRows);
  if (!rows.length) return html`<p class="dim">no ${what}</p>`;
  return html`<table><thead><tr>${cols.map(c => html`<th class=${c[3] || ''} aria-sort=${at === c ? (down ? 'descending' : 'ascending') : undefined}>
      ${c[2] ? html`<button onClick=${() => setParam('sort', at === c && down ? c[0] : '-' + c[0])}>${c[0]}${at === c ? (down ? ' ↓' : ' ↑') : ''}</button>` : c[0]}</th>`)}</tr></thead>
    <tbody>${rows.slice(0, maxRows).map((r, i) => html`<tr key=${key ? key(r) : i}>${cols.map(c => html`<td class=${c[3] || ''}>${c[1](r)}</td>`)}</tr>`)}</tbody></table>
    ${more > 0 && html`<p class="more">${moreMatch(more)}: narrow them with ${filter}</p>`}`;
}

// Filter is a text or a choice that is in the URL.
export function Filter({ name, value = '', label, of, search }) {
  const set = e => setParam(name, e.target.type === 'checkbox' ? (e.target.checked ? 'true' : '') : e.target.value);
  if (of === true) return html`<label><input type="checkbox" checked=${!!value} onChange=${set} /> ${label}</label>`;
  if (of) return html`<label>${label} <select value=${value} onChange=${set}><option value="">all</option>${of.map(o => html`<option value=${o} selected=${o === value}>${o}</option>`)}</select></label>`;
  return html`<input type="search" class=${search ? 'first' : ''} value=${value} onInput=${set} placeholder=${label + (search ? ' ( / )' : '')} aria-label=${label} />`;
}

export function Cmd({ text }) {
  const [done, set] = useState(false);
  const copy = () => navigator.clipboard?.writeText(text).then(() => { set(true); setTimeout(() => set(false), 1500); }, () => {});
  return html`<span class="cmd"><code>${text}</code><button class="plain" onClick=${copy}>${done ? 'copied' : 'copy'}</button></span>`;
}
// word is an argument as a shell takes it. What does not print is bytes in $'...', so that a terminal that gets the command does what is seen.
const unprinted = /[\p{C}\p{Zl}\p{Zp}]/u;
const bytesOf = c => Array.from(new TextEncoder().encode(c), b => '\\x' + b.toString(16).padStart(2, '0')).join('');
export function word(s) {
  if (/^[\w./:@+][\w./:@%+=-]*$/.test(s)) return s;
  if (!unprinted.test(s)) return `'${s.replaceAll("'", `'\\''`)}'`;
  return `$'${Array.from(s, c => (unprinted.test(c) ? bytesOf(c) : c.replace(/['\\]/, '\\$&'))).join('')}'`;
}

// State says what is missing of an answer.
export function State({ of: { data, error }, silent = data?.silent }) {
  return html`${error && html`<p class="bad" role="alert">${error.message}</p>`}${(silent || []).map(s => html`<p class="warn">${s}: what is there is missing</p>`)}${!data && !error && html`<p class="dim">asking…</p>`}`;
}

// Guard shows what went wrong in a page, in place of nothing.
export class Guard extends Component {
  constructor() { super(); this.state = {}; }
  static getDerivedStateFromError(error) { return { error }; }
  componentDidCatch(error) { console.error(error); }
  render({ children }, { error }) { return error ? html`<p class="bad" role="alert">this cannot be shown: ${error.message}</p>` : children; }
}
