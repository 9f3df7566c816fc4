import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { freePort } from './ports.ts';

const { href: url } = new URL('./ports.ts', import.meta.url);

/** What Math.random has to return so that this port is tried. */
const chanceOf = (port: number) => (port - 20_000 + 0.5) / 12_000;

describe('freePort', () => {
  afterEach(() => {
    jest.restoreAllMocks();
  });

  it('returns no port twice, although nothing listens on the first one yet', async () => {
    const first = await freePort();
    jest.spyOn(Math, 'random').mockReturnValueOnce(chanceOf(first));

    expect(await freePort()).not.toBe(first);
  });

  it('returns no port that another process has got', async () => {
    const first = await freePort();
    const program = `
      const chances = [${chanceOf(first)}];
      const { random } = Math;
      Math.random = () => chances.pop() ?? random();
      const { freePort } = await import(${JSON.stringify(url)});
      console.log(await freePort(), chances.length);
    `;

    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program]);

    expect(stdout).toMatch(/^\d+ 0\n$/);
    expect(Number.parseInt(stdout, 10)).not.toBe(first);
  });
});
