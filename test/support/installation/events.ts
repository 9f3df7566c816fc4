import type { ObjectRef } from '../../../api/model/ref.ts';
import { type Event, events } from '../../../kube/core.ts';
import { until } from '../until.ts';
import type { Scene } from './scene.ts';

/** What tests ask of the Events of an installation. */
export function eventVerbs({ namespace, control, story }: Scene) {
  /** Events about an object, or about all of a name, oldest first. @param reason only of this one */
  async function eventsOf(about: ObjectRef | string, reason?: string): Promise<Event[]> {
    const isAbout = ({ name, uid }: Event['regarding']) =>
      about === name || (typeof about === 'object' && about.uid === uid);
    const { items } = await control.list(events, { namespace });
    const own = items.filter((each) => isAbout(each.regarding) && (reason ?? each.reason) === each.reason);
    return own.toSorted((a, b) => (a.eventTime ?? '').localeCompare(b.eventTime ?? ''));
  }

  return {
    eventsOf,

    /** Waits until there is such an Event, and returns it. */
    async untilEvent(about: ObjectRef | string, reason: string, note: string | RegExp = ''): Promise<Event> {
      const isMeant = (text: string) => (typeof note === 'string' ? text.includes(note) : note.test(text));
      return until(
        `${typeof about === 'string' ? about : about.name} has an Event ${reason} with '${note}'`,
        async (see) => see(await eventsOf(about, reason)).find((event) => isMeant(event.note)),
        { describe: story },
      );
    },
  };
}
