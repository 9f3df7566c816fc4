/** Everything that a run does at random. A new act is an entry in one of the three tables. */
import type { Acts } from './act.ts';
import { cloudActs } from './cloud-acts.ts';
import { outages } from './outages.ts';
import { peopleActs } from './people-acts.ts';

/** All acts. */
export const acts: Acts = { ...outages, ...cloudActs, ...peopleActs };
