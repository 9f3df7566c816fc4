/** Draws the machines that the server sends. Everything that is sent is put into the page as text, never as HTML. */

import { byId, make } from './dom.js';
import { drawLife } from './life.js';
import { drawRollout } from './rollout.js';

/** @type {Map<string, { cell: object, element: HTMLElement }>} machines by name */
const fleet = new Map();
/** What is known beside the machines: namespace, what causes mean, and what else is stuck. */
let standing = { meanings: {}, stuck: [], more: 0, isListed: false, isReachable: true };
let isConnected = true;
/** What is shown: the name of a machine, or of a rollout after this prefix; '' is nothing. */
let shown = '';
const ofRollout = 'rollout/';

/** What is listened to while the page can be seen: a browser has six connections to a server for all of its tabs. */
let stream;
/** When the controllers have sent something, ms since the epoch. They do every 10 s. */
let heardAt = 0;
const silentMs = 30_000;

function listen() {
  stream?.close();
  heardAt = Date.now();
  stream = new EventSource('fleet');
  stream.addEventListener('open', () => {
    isConnected = true;
    fleet.clear();
    byId('fleet').replaceChildren();
  });
  stream.addEventListener('error', () => {
    isConnected = false;
    drawAlarm();
  });
  stream.addEventListener('cells', ({ data }) => {
    heardAt = Date.now();
    const { changed, gone } = JSON.parse(data);
    for (const name of gone) remove(name);
    for (const cell of changed) put(cell);
    drawSummary();
  });
  stream.addEventListener('standing', ({ data }) => {
    heardAt = Date.now();
    standing = JSON.parse(data);
    byId('where').textContent = `of namespace ${standing.namespace}, installation ${standing.installation}`;
    drawSummary();
  });
}

/** A browser tries again by itself after a lost connection, but not after an error of a proxy, nor does it notice silence. */
function listenAgain() {
  const isSilent = Date.now() - heardAt > silentMs;
  if (document.hidden || (stream.readyState !== EventSource.CLOSED && !isSilent)) return;
  isConnected = false;
  drawAlarm();
  listen();
}

function put(cell) {
  const before = fleet.get(cell.name);
  const isMoved = before && (before.cell.deployment !== cell.deployment || before.cell.zone !== cell.zone);
  if (isMoved) remove(cell.name);
  const element = before && !isMoved ? before.element : make('button', { className: 'cell' });
  element.dataset.name = cell.name;
  element.dataset.phase = cell.phase;
  if (cell.blockedOn) element.dataset.blocked = cell.blockedOn;
  else delete element.dataset.blocked;
  element.ariaLabel = [cell.name, cell.phase, cell.blockedOn && meaningOf(cell.blockedOn)].filter(Boolean).join(', ');
  element.hidden = !isWanted(cell);
  element.ariaPressed = String(cell.name === shown);
  fleet.set(cell.name, { cell, element });
  if (!element.isConnected) insert(groupOf(cell), element);
}

function remove(name) {
  const { element } = fleet.get(name) ?? {};
  fleet.delete(name);
  const group = element?.parentElement;
  element?.remove();
  if (group?.childElementCount === 0) {
    const deployment = group.closest('.deployment');
    group.closest('.zone').remove();
    if (!deployment.querySelector('.zone')) deployment.remove();
  }
}

/** The element for the cells of a deployment in a zone. */
function groupOf({ deployment = '', zone = '' }) {
  const ofDeployment = child(byId('fleet'), deployment, () => {
    const title = deployment ? rolloutButton(deployment) : make('span', {}, 'No deployment');
    return make('section', { className: 'deployment' }, make('h2', {}, title, make('i')), make('small'));
  });
  const ofZone = child(ofDeployment, zone, () =>
    make('div', { className: 'zone' }, make('h3'), make('div', { className: 'cells' })),
  );
  return ofZone.lastElementChild;
}

function rolloutButton(name, text = name) {
  return make('button', { onclick: () => show(ofRollout + name) }, text);
}

function machineButton(name) {
  return make('button', { onclick: () => show(name) }, name);
}

/** The child with this name, made and put in its place if there is none. */
function child(parent, name, create) {
  const present = [...parent.children].find((each) => each.dataset.name === name);
  if (present) return present;
  const created = create();
  created.dataset.name = name;
  insert(parent, created);
  return created;
}

/** Puts an element among its siblings, in the order of their names. */
function insert(parent, element) {
  const { children } = parent;
  let low = 0;
  let high = children.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    // What has no name comes first.
    if ((children[middle].dataset.name ?? '') <= element.dataset.name) low = middle + 1;
    else high = middle;
  }
  parent.insertBefore(element, children[low] ?? null);
}

function isWanted({ name, phase, deployment = '', zone = '', blockedOn = '' }) {
  const wanted = byId('search').value.trim().toLowerCase();
  return [name, phase, deployment, zone, blockedOn].some((text) => text.toLowerCase().includes(wanted));
}

function meaningOf(blockedOn) {
  return standing.meanings[blockedOn] ?? blockedOn;
}

/** Counts, causes and alarms: what is drawn anew after each change. */
function drawSummary() {
  const cells = [...fleet.values()].map(({ cell }) => cell);
  const phases = Object.entries(Object.groupBy(cells, ({ phase }) => phase));
  byId('phases').replaceChildren(
    ...phases.map(([phase, { length }]) => {
      const colour = make('i');
      colour.dataset.phase = phase;
      return make('button', { onclick: () => search(phase) }, colour, `${phase} ${length}`);
    }),
  );
  drawStuck(cells);
  drawAlarm();
  const blocked = new Map(standing.stuck.map((each) => [`${each.kind} ${each.name}`, each.blockedOn]));
  for (const section of byId('fleet').children) {
    const count = section.querySelectorAll('.cell').length;
    const cause = blocked.get(`MachineDeployment ${section.dataset.name}`);
    section.querySelector('small').textContent = count;
    nameZones(section);
    section.classList.toggle('large', count >= large);
    section.hidden = !section.querySelector('.cell:not([hidden])');
    if (cause) section.dataset.blocked = cause;
    else delete section.dataset.blocked;
  }
}

/** What the zones of a deployment have in common is beside its name, and the rest beside their cells. */
function nameZones(section) {
  const zones = [...section.querySelectorAll('.zone')];
  const [first = '', ...others] = zones.map(({ dataset }) => dataset.name).filter(Boolean);
  let shared = first.length;
  for (const other of others) while (!other.startsWith(first.slice(0, shared))) shared -= 1;
  for (const { dataset, firstChild } of zones) firstChild.textContent = dataset.name.slice(shared);
  const title = section.querySelector('h2');
  title.lastChild.textContent = first.slice(0, shared);
  title.title = `${title.firstChild.textContent} ${[first, ...others].join(', ')}`;
}

/** A deployment with so many machines gets the whole width. */
const large = 60;

/** How many names a cause shows. */
const maxNames = 3;

function drawStuck(cells) {
  const causes = Object.groupBy(
    cells.filter(({ blockedOn }) => blockedOn),
    ({ blockedOn }) => blockedOn,
  );
  const lines = Object.entries(causes)
    .toSorted(([, a], [, b]) => b.length - a.length)
    .map(([blockedOn, blocked]) => {
      const names = blocked.slice(0, maxNames).flatMap(({ name }) => [' ', machineButton(name)]);
      const more = blocked.length - maxNames;
      const count = `${blocked.length} ${blocked.length === 1 ? 'machine' : 'machines'}`;
      return make(
        'p',
        {},
        make('button', { onclick: () => search(blockedOn) }, `${blockedOn}: ${count}`),
        ` ${meaningOf(blockedOn)}:`,
        ...names,
        more > 0 ? ` and ${more} more` : '',
      );
    });
  const { stuck, more } = standing;
  byId('stuck').replaceChildren(
    ...lines,
    ...stuck.map(toStuckLine),
    ...(more > 0 ? [make('p', {}, `and ${more} more, which \`millwright stuck\` lists`)] : []),
  );
  byId('stuck').hidden = lines.length + stuck.length === 0;
}

/** What is stuck and no machine: its cause, what it says itself, and what helps. */
function toStuckLine({ kind, name, blockedOn, problem, unblock }) {
  return make(
    'p',
    {},
    kind === 'MachineDeployment'
      ? rolloutButton(name, `${blockedOn}: ${kind} ${name}`)
      : make('b', {}, `${blockedOn}: ${kind} ${name}`),
    ` ${problem ?? meaningOf(blockedOn)}`,
    ...(unblock ? [make('span', { className: 'unblock' }, unblock)] : []),
  );
}

function drawAlarm() {
  const { isListed, isReachable, problem } = standing;
  const text = [
    !isConnected && 'The controllers do not answer: this is what was last known.',
    isConnected && !isListed && 'The machines are not listed yet.',
    isConnected &&
      isListed &&
      !isReachable &&
      'The API server does not answer the controllers: this is what was last known.',
    isConnected && problem && `Temporal does not say what is stuck: ${problem}`,
  ].filter(Boolean);
  byId('alarm').textContent = text.join(' ');
  byId('alarm').hidden = text.length === 0;
}

function search(text) {
  byId('search').value = byId('search').value === text ? '' : text;
  hideUnwanted();
}

function hideUnwanted() {
  for (const { cell, element } of fleet.values()) element.hidden = !isWanted(cell);
  for (const section of byId('fleet').children) section.hidden = !section.querySelector('.cell:not([hidden])');
}

/** Shows a machine or a rollout; '' closes. The address of the page names it, so that a link can be passed on. */
function show(name) {
  history.replaceState(null, '', name ? `#${name}` : location.pathname);
  shown = name;
  for (const { cell, element } of fleet.values()) element.ariaPressed = String(cell.name === name);
  byId('details').hidden = !name;
  byId('details').querySelector('h2').textContent = name.replace(ofRollout, '');
  byId('description').replaceChildren(make('dd', {}, 'Asking its workflow'));
  byId('drawing').replaceChildren();
  byId('details').querySelector('a').hidden = true;
  void drawDetails();
}

/** How often what is shown is asked for, ms. */
const askMs = 3_000;
let asking;

async function drawDetails() {
  clearTimeout(asking);
  const name = shown;
  if (!name) return;
  const { rows, life, rollout, problem, link, error } = await ask(name);
  if (shown !== name) return;
  const said = rows?.flatMap(([term, value]) => [make('dt', {}, term), make('dd', {}, value)]);
  byId('description').replaceChildren(...(said ?? [make('dd', {}, error)]));
  byId('drawing').replaceChildren(
    ...(problem ? [make('p', {}, problem)] : []),
    ...(life ? drawLife(life) : []),
    ...(rollout ? drawRollout(rollout, makeCell, machineButton) : []),
  );
  const a = byId('details').querySelector('a');
  a.hidden = !link;
  if (link) a.href = link;
  asking = setTimeout(drawDetails, askMs);
}

/** The cell of a machine of a rollout, as it is now. */
function makeCell(name) {
  const { cell = { name, phase: 'new' } } = fleet.get(name) ?? {};
  const element = make('button', { className: 'cell', onclick: () => show(name) });
  element.dataset.phase = cell.phase;
  if (cell.blockedOn) element.dataset.blocked = cell.blockedOn;
  element.title = describeCell(cell);
  element.ariaLabel = [name, cell.phase].join(', ');
  return element;
}

async function ask(name) {
  const isRollout = name.startsWith(ofRollout);
  const path = encodeURIComponent(isRollout ? name.slice(ofRollout.length) : name);
  try {
    const response = await fetch(`${isRollout ? 'deployments' : 'machines'}/${path}`);
    return await response.json();
  } catch (error) {
    return { error: `The controllers do not answer: ${error.message}` };
  }
}

/** Says how long a machine is in its phase: when somebody points at it, not for thousands of cells at a time. */
function describeCell({ phase, since, zone, waitsFor, blockedOn, name }) {
  const minutes = Math.max(0, Math.round((Date.now() - Date.parse(since)) / 60_000));
  const age = minutes < 1 ? 'less than a minute' : minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
  return [
    name,
    `${phase} for ${age}`,
    zone && `zone ${zone}`,
    waitsFor && `waits for: ${waitsFor}`,
    blockedOn && `blocked: ${meaningOf(blockedOn)}`,
  ]
    .filter(Boolean)
    .join('\n');
}

byId('search').addEventListener('input', hideUnwanted);
byId('close').addEventListener('click', () => show(''));
byId('print').addEventListener('click', () => print());
document.addEventListener('keydown', ({ key }) => key === 'Escape' && show(''));
byId('fleet').addEventListener('click', ({ target }) => target.matches('.cell') && show(target.dataset.name));
byId('fleet').addEventListener('mouseover', ({ target }) => {
  if (target.matches('.cell')) target.title = describeCell(fleet.get(target.dataset.name).cell);
});
document.addEventListener('visibilitychange', () => {
  if (document.hidden) stream?.close();
  else listen();
});
if (!document.hidden) listen();
setInterval(listenAgain, askMs);
const showNamed = () => show(decodeURIComponent(location.hash.slice(1)));
addEventListener('hashchange', showNamed);
if (location.hash) showNamed();
