/** Draws a rollout: its machines, old and new, within their bounds, its steps, and the runs of its workflow. */
import { make, place, timeOf } from './dom.js';

/**
 * @param cellOf makes the cell of a machine, by its name
 * @param nameOf makes a button that shows a machine, by its name
 * @returns {any[]} elements
 */
export function drawRollout(rollout, cellOf, nameOf) {
  const { replicas, most, least, now, sets, blockers, moreBlockers, problem, steps, runs } = rollout;
  const bounds = `${replicas} wanted. At most ${most} may exist, and at least ${least} have to be available.`;
  return [
    make('h3', {}, 'Machines'),
    make('p', { className: 'caption' }, `${bounds} Grey: old. Green: new. Line below: available. Marks: the bounds.`),
    make('p', {}, countsText(now)),
    drawBar(now, rollout),
    ...sets.map(({ name, isNew, total, machines }) => {
      const more = total - machines.length;
      return make(
        'div',
        { className: 'set' },
        make('p', {}, make('b', {}, isNew ? 'New' : 'Old'), ` ${name}, ${total}`),
        make('div', { className: 'cells' }, ...machines.map(cellOf)),
        more > 0 ? `and ${more} more` : '',
      );
    }),
    ...(blockers.length > 0 || problem ? [make('h3', {}, 'Waits for')] : []),
    ...(problem ? [make('p', {}, problem)] : []),
    ...blockers.map(({ name, reason }) => make('p', { className: 'blocker' }, nameOf(name), `: ${reason}`)),
    ...(moreBlockers > 0 ? [make('p', {}, `and ${moreBlockers} more`)] : []),
    make('h3', {}, 'Steps'),
    steps.length > 0 ? drawSteps(rollout) : make('p', { className: 'caption' }, 'Temporal has kept none.'),
    make('h3', {}, 'Runs'),
    make('ol', { id: 'runs' }, ...runs.map((run, i) => drawRun(run, runs[i - 1]))),
  ];
}

function countsText({ old, updated, available }) {
  return `${old} old, ${updated} new, ${available} available`;
}

/** The newest first. */
function drawSteps(rollout) {
  const steps = rollout.steps.toReversed();
  const items = steps.map((step, i) =>
    make(
      'li',
      {},
      make('p', {}, timeOf(step.at, steps[i - 1]?.at), countsText(step)),
      drawBar(step, rollout),
      ...step.notes.map((note) => make('p', { className: 'note' }, note)),
    ),
  );
  return make('ol', { id: 'steps' }, ...items);
}

function drawBar({ oldShare, updatedShare, availableShare }, { mostShare, leastShare }) {
  const part = (className, from, to) => place(make('div', { className }), from, to);
  const parts = [
    oldShare > 0 && part('old', 0, oldShare),
    updatedShare > 0 && part('new', oldShare, oldShare + updatedShare),
    availableShare > 0 && part('available', 0, availableShare),
    part('bound', leastShare, leastShare),
    part('bound', mostShare, mostShare),
  ];
  return make('div', { className: 'track' }, ...parts.filter(Boolean));
}

function drawRun({ start, took, outcome, paused, set, failure, link }, before) {
  const isOpen = outcome === 'running';
  const text = isOpen ? `open for ${took}` : `${paused ? 'paused' : outcome.replaceAll('_', ' ')} after ${took}`;
  const item = make(
    'li',
    {},
    make('p', {}, timeOf(start, before?.start), `${text}${set ? `, ${set}` : ''} `, ...(link ? [toLink(link)] : [])),
    ...(failure ?? '').split('\n').map((line) => make('p', { className: 'note' }, line)),
  );
  item.classList.toggle('failed', outcome === 'failed');
  return item;
}

function toLink(href) {
  return make('a', { href, target: '_blank', rel: 'noreferrer' }, 'in Temporal');
}
