/** Draws the life of a machine: a bar for each step, all on one scale, with what was called and waited for in it. */
import { make, place, timeOf } from './dom.js';

/** @returns {any[]} elements */
export function drawLife({ steps, lines, distance, isGone, isLost, isLimited }) {
  const isCut = steps.some((step) => step.isCut);
  const captions = [
    `Lines are ${distance} apart.`,
    isCut && 'A torn bar was longer than it is drawn.',
    'Dark: a call. Red: one that failed. Striped: blocked.',
    isLimited && 'Earlier steps are not drawn.',
  ];
  const rows = steps.map((step, i) => drawStep(step, steps[i - 1], lines));
  const ends = isLost
    ? 'The Machine has disappeared although its deletion was not finished: its VM may still be there.'
    : 'The VM is deleted, and the Machine gone.';
  const end = isGone ? [make('p', {}, ends)] : [];
  const caption = make('p', { className: 'caption' }, captions.filter(Boolean).join(' '));
  return [make('h3', {}, 'Life'), caption, make('ol', { id: 'life' }, ...rows), ...end];
}

function drawStep(step, before, lines) {
  const head = make(
    'p',
    {},
    timeOf(step.start, before?.start),
    make('b', {}, step.step),
    ` ${step.took}${step.isOpen ? ' so far' : ''}`,
  );
  const bar = place(make('div', { className: 'bar' }), step.from, step.to);
  bar.dataset.step = step.step;
  bar.classList.toggle('cut', step.isCut);
  bar.classList.toggle('open', step.isOpen);
  const track = make('div', { className: 'track' }, ...lines.map(drawLine), bar);
  for (const wait of step.waits) {
    const title = `blocked on ${wait.blockedOn} for ${wait.took}`;
    track.append(place(make('div', { className: 'wait', title }), wait.from, wait.to));
  }
  for (const call of step.calls) track.append(drawCall(call));
  return make('li', {}, head, track, ...step.notes.map((note) => make('p', { className: 'note' }, note)));
}

function drawLine(at) {
  return place(make('i'), at, at);
}

function drawCall({ activity, attempts, failure, took, isOpen, from, to }) {
  const often = attempts > 1 ? `, attempt ${attempts}` : '';
  const title = `${activity}${often}: ${took}${isOpen ? ' so far' : ''}${failure ? `, ${failure.code}: ${failure.message}` : ''}`;
  const call = place(make('div', { className: 'call', title }), from, to);
  if (failure) call.classList.add('failed');
  return call;
}
