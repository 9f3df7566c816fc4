/** The environment of every test file: Node's, which also notes what CPU the file has used. */
import { appendFileSync } from 'node:fs';
import { TestEnvironment } from 'jest-environment-node';
import { cpuOf } from './cpu.ts';
import { costsVariable, notesOf } from './table.ts';

type Arguments = ConstructorParameters<typeof TestEnvironment>;

export default class MeasuredEnvironment extends TestEnvironment {
  readonly #before = cpuOf('self');
  readonly #file: string;

  constructor(config: Arguments[0], context: Arguments[1]) {
    super(config, context);
    this.#file = context.testPath;
  }

  override async teardown(): Promise<void> {
    const now = cpuOf('self');
    const line = { file: this.#file, own: now.own - this.#before.own, children: now.ended - this.#before.ended };
    const costs = process.env[costsVariable];
    if (costs !== undefined) appendFileSync(notesOf(costs), `${JSON.stringify(line)}\n`);
    await super.teardown();
  }
}
