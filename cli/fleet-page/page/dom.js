/** What all parts of the page make elements with. Everything becomes text, never HTML. */

/** @returns {any} */
export const byId = (id) => document.getElementById(id);

/** An element with properties and children, which are elements or text. @returns {any} */
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** Puts an element between two positions of a track, from 0 to 1. */
export function place(element, from, to) {
  element.style.left = `${100 * from}%`;
  element.style.width = `${100 * (to - from)}%`;
  return element;
}

/** A time, with its day where that is another one than before. @param at RFC 3339 */
export function timeOf(at, before = '') {
  const day = at.slice(0, 10);
  const time = `${at.slice(11, 19)}Z`;
  return make('time', { dateTime: at }, before.startsWith(day) ? time : `${day} ${time}`);
}
