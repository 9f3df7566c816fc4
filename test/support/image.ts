/** A Containerfile without a container engine: a stage is a folder, and this machine plays the base image. */
import { execFile } from 'node:child_process';
import { globSync } from 'node:fs';
import { copyFile, cp, mkdir, readFile, rm } from 'node:fs/promises';
import { basename, delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { becoming, giveTo } from './users.ts';

const run = promisify(execFile);

/** Takes the steps before the first USER, where the tests run as root. */
const builder = '65532:65532';

/** The steps that are known, each in one line. */
const forms: Readonly<Record<string, RegExp>> = {
  ARG: /^BASE=docker\.io\/library\/node:24\S*$/,
  FROM: /^\$BASE(?: AS (\w+))?$/,
  WORKDIR: /^(\/\S+)$/,
  COPY: /^(?:--from=(\w+) )?(\S+) (\S+)$/,
  RUN: /^(.+)$/,
  ENV: /^PATH=(\/\S+):\$PATH$/,
  USER: /^(\d+:\d+)$/,
  ENTRYPOINT: /^\["(\w+)"\]$/,
};

interface Stage {
  /** Folder of its files. */
  readonly root: string;
  workdir: string;
  path: string;
  user: string;
  entrypoint: string;
}

export interface Image {
  /** Folder of its files. Nobody may write to them. */
  readonly root: string;
  /** As USER says it. */
  readonly user: string;
  /** What a command begins with that runs in the image, as its user. */
  readonly inside: readonly string[];
  readonly entrypoint: string;
}

/** Takes the steps of the Containerfile of a folder, in another one. Throws at a line that it does not know. */
export async function buildImage(context: string, folder: string): Promise<Image> {
  const env = await environment(context, folder);
  const stages = new Map<string, Stage>();
  let stage: Stage = { root: folder, workdir: '/', path: '', user: builder, entrypoint: '' };
  for (const { word, words } of await readSteps(context)) {
    const [first = '', second = '', third = ''] = words;
    const { root, user } = stage;
    const within = join(root, stage.workdir);
    switch (word) {
      case 'FROM': {
        const next = join(folder, `${stages.size}`);
        const programs = join(next, 'usr/local/bin');
        await mkdir(programs, { recursive: true });
        await copyFile(process.execPath, join(programs, 'node'));
        const path = `${programs}${delimiter}${env.PATH}`;
        stage = { root: next, workdir: '/', path, user: builder, entrypoint: '' };
        stages.set(first, stage);
        break;
      }
      case 'WORKDIR':
        stage.workdir = first;
        await mkdir(join(root, first), { recursive: true });
        break;
      case 'COPY': {
        const origin = first === '' ? context : (stages.get(first)?.root ?? '');
        const [found = second, other] = globSync(second.replace(/^\//, ''), { cwd: origin });
        if (other !== undefined) throw new Error(`COPY ${second} has several files, such as ${found} and ${other}`);
        const target = third.startsWith('/') ? join(root, third) : join(within, third);
        await cp(join(origin, found), third.endsWith('/') ? join(target, basename(found)) : target, {
          recursive: true,
          verbatimSymlinks: true,
        });
        break;
      }
      case 'RUN': {
        await giveTo(user, folder);
        const [program, ...args] = [...becoming(user), 'sh', '-c', first];
        await run(program, args, { cwd: within, env: { ...env, PATH: stage.path } });
        break;
      }
      case 'ENV':
        stage.path = `${join(root, first)}${delimiter}${stage.path}`;
        break;
      case 'USER':
        stage.user = first;
        break;
      case 'ENTRYPOINT':
        stage.entrypoint = first;
    }
  }
  const { root, user, path, workdir, entrypoint } = stage;
  await giveTo(user, folder);
  await run('chmod', ['-R', 'a-w', root]);
  const inside = [...becoming(user), 'env', `--chdir=${join(root, workdir)}`, `PATH=${path}`, `HOME=${root}`];
  return { root, user, inside, entrypoint };
}

/** Removes what `buildImage` has made in a folder. */
export async function removeImage(folder: string): Promise<void> {
  await run('chmod', ['-R', 'u+w', folder]);
  await rm(folder, { recursive: true });
}

async function readSteps(context: string) {
  const text = await readFile(join(context, 'Containerfile'), 'utf8');
  return text.split('\n').flatMap((line) => {
    if (line === '' || line.startsWith('#')) return [];
    const [word = ''] = line.split(' ', 1);
    const match = forms[word]?.exec(line.slice(word.length + 1));
    if (!match) throw new Error(`buildImage does not know this line of the Containerfile: ${line}`);
    return [{ word, words: match.slice(1) }];
  });
}

/** That of the tests, without what npm and the checkout have added, and with the registry that npm uses here. */
async function environment(context: string, folder: string): Promise<Readonly<Record<string, string | undefined>>> {
  const registry = (await run('npm', ['config', 'get', 'registry'], { cwd: context })).stdout.trim();
  const others = Object.entries(process.env).filter(([name]) => !/^npm_|^NODE_OPTIONS$/i.test(name));
  const path = (process.env.PATH ?? '').split(delimiter).filter((entry) => !entry.includes('node_modules'));
  const home = join(folder, 'home');
  await mkdir(home);
  return { ...Object.fromEntries(others), PATH: path.join(delimiter), HOME: home, npm_config_registry: registry };
}
