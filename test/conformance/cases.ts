import type { Case } from './case.ts';
import { creationCases } from './cases/creation.ts';
import { deletionCases } from './cases/deletion.ts';
import { listCases } from './cases/lists.ts';
import { refusalCases } from './cases/refusals.ts';
import { tagCases } from './cases/tags.ts';

/** All cases, in the order in which they run. */
export const cases: readonly Case[] = [...creationCases, ...deletionCases, ...listCases, ...tagCases, ...refusalCases];
