/** What goes in and out of the code of a workflow, in the words of Temporal's SDK. */
import type { Workflow } from '@temporalio/worker/lib/workflow/interface.js';

export type Activation = Parameters<Workflow['activate']>[0];
export type Job = NonNullable<Activation['jobs']>[number];
type Completion = Awaited<ReturnType<Workflow['activate']>>;
export type Command = NonNullable<NonNullable<Completion['successful']>['commands']>[number];
export type ActivityResult = NonNullable<NonNullable<Job['resolveActivity']>['result']>;
export type ActivityCommand = NonNullable<Command['scheduleActivity'] | Command['scheduleLocalActivity']>;
