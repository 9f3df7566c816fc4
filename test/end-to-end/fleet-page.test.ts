/** The fleet page in a browser, from the controllers of a real installation. */
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Browser, Page } from 'puppeteer-core';
import { labels } from '../../api/gardener/names.ts';
import { workflowId } from '../../api/workflow-id.ts';
import { lackOfBrowser, startBrowser } from '../support/browser.ts';
import { createFleetScene } from '../support/fleet-scene.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { arePicturesTaken, type Clip, takePicture } from '../support/pictures.ts';
import { heldSweep, makeVm, quickSweeps, untilOld } from '../support/sweeps.ts';
import { until } from '../support/until.ts';

const lack = lackOfBrowser();
const zone = 'topology.kubernetes.io/zone';

/** A template whose Nodes are in a zone. */
const inZone = (name: string, of: string) => ({
  template: {
    metadata: { labels: { [labels.name]: name } },
    spec: { class: { kind: 'MachineClass', name: 'small' }, nodeTemplate: { metadata: { labels: { [zone]: of } } } },
  },
});

/** Where the page of an installation is. */
const urlOf = ({ processes }: Installation) =>
  /"url":"([^"]+)"[^\n]*serving the fleet page/.exec(processes[0]?.logs() ?? '')?.[1] ?? '';

/** What is open, without the room below it. */
async function clipOf(page: Page): Promise<Clip> {
  const bottom = "document.querySelector('#drawing').getBoundingClientRect().bottom";
  const { x, y, width, height } = (await page.evaluate(
    `(({ x, y, width }) => ({ x, y, width, height: ${bottom} + 16 - y }))(document.querySelector('#details').getBoundingClientRect())`,
  )) as Clip;
  return { x, y, width, height: Math.min(height, 900) };
}

/** Of a larger fleet, of its rollout, and of a machine that is stuck. */
async function takePictures(browser: Browser): Promise<void> {
  const shop = await startInstallation({
    ...{
      namespace: 'shop',
      flags: ['--fleet-port', '0', '--temporal-ui', 'https://temporal.example.com'],
      alone: 'its page is looked at',
    },
    cloud: { bootMs: 500, joinMs: 500 },
  });
  try {
    await createFleetScene(shop);
    const page = await browser.newPage();
    await page.setViewport({ width: 1120, height: 290 });
    await page.goto(urlOf(shop));
    await until('both causes are shown', async (see) => see(await page.$$('#stuck p')).length === 2);
    await takePicture(page, 'fleet-page');
    await page.setViewport({ width: 760, height: 900 });
    await page.goto(`${urlOf(shop)}#rollout/web-b`);
    await page.waitForSelector('#runs li');
    await takePicture(page, 'fleet-page-rollout', () => clipOf(page));
    await page.evaluate("document.querySelector('[data-name=gpu-a] [data-blocked]').click()");
    await page.waitForSelector('#life .call.failed');
    await takePicture(page, 'fleet-page-machine', () => clipOf(page));
    await page.close();
  } finally {
    await shop.stop();
  }
}

(lack === undefined ? describe : describe.skip)(`the fleet page${lack ?? ''}`, () => {
  let millwright: Installation;
  let browser: Browser;
  let page: Page;
  let url: string;
  /** What the page and the browser have written on the console. */
  const said: string[] = [];

  beforeAll(async () => {
    const flags = ['--fleet-port', '0', '--temporal-ui', 'https://temporal.example.com/', ...quickSweeps];
    [millwright, browser] = await Promise.all([
      startInstallation({ flags, alone: 'it is ended while somebody looks' }),
      startBrowser(),
    ]);
    url = urlOf(millwright);
    page = await browser.newPage();
    page.on('console', (message) => said.push(message.text()));
    await page.goto(url);
    if (arePicturesTaken) await takePictures(browser);
  }, 400_000);
  afterAll(async () => {
    await browser?.close();
    await millwright?.stop();
  });

  /** The buttons are drawn again with each event: between the steps of a click that puppeteer makes, too. */
  const clickStuck = () => page.evaluate("document.querySelector('#stuck button').click()");
  const textOf = (selector: string) => page.$eval(selector, (element) => element.textContent);
  const cells = (selector: string) =>
    page.$$eval(selector, (found) => found.map((each) => each.getAttribute('data-name')));

  const styleOf = (selector: string, property: string) =>
    page.evaluate(`getComputedStyle(document.querySelector('${selector}')).${property}`);

  it('shows every machine as a cell with its phase, by deployment and zone, and changes by itself', async () => {
    await millwright.createDeployment('pool', 3, inZone('pool', 'zone-a'));
    await millwright.createDeployment('spare', 1, inZone('spare', 'zone-b'));
    const ofPool = '[data-name=pool] [data-name=zone-a] .cell[data-phase=Running]';
    const ofSpare = '[data-name=spare] [data-name=zone-b] .cell[data-phase=Running]';
    await until('all run', async (see) => see(await cells(ofPool)).length === 3 && (await cells(ofSpare)).length === 1);

    const names = (await millwright.machines()).map(({ metadata }) => metadata.name);
    expect((await cells('.cell')).toSorted()).toEqual(names.toSorted());
    expect(await textOf('[data-name=pool]')).toBe('poolzone-a3');
    expect(said).toEqual([]);
    expect(await textOf('#phases')).toBe('Running 4');
    expect(await styleOf('.cell', 'backgroundColor')).toBe('rgb(47, 158, 91)');

    await millwright.scale('spare', 0);
    await until('it is gone', async (see) => see(await cells('.cell')).length === 3);
    expect(await page.$('[data-name=spare]')).toBeNull();
  });

  it('lets what is stuck stand out with its cause, and shows only what is searched for', async () => {
    await millwright.cloud.setFaults({ kind: 'capacity' });
    await millwright.scale('pool', 5);
    const stuck = '.cell[data-blocked=CloudCapacity]';
    await until('both are marked', async (see) => see(await cells(stuck)).length === 2);

    expect(await textOf('#stuck')).toContain(
      'CloudCapacity: 2 machines the cloud has no capacity or the quota is used up',
    );
    expect(await styleOf(stuck, 'outlineStyle')).toBe('solid');
    await page.hover(stuck);
    expect(await page.$eval(stuck, (element) => element.getAttribute('title'))).toMatch(
      /^pool-.*\nCrashLoopBackOff for (less than a minute|[12] min)\nzone zone-a\nwaits for: .*InsufficientCapacity.*\nblocked: the cloud has no/,
    );

    await clickStuck();
    expect(await cells('.cell:not([hidden])')).toEqual(await cells(stuck));
    await clickStuck();
    expect(await cells('.cell:not([hidden])')).toHaveLength(5);
  });

  it('shows what describe says of a machine that is clicked, its life and its page in Temporal', async () => {
    await page.click('.cell[data-blocked]');
    await until('its workflow has answered', async (see) => see(await textOf('#description'))?.includes('Blocked on'));

    const name = (await textOf('#details h2')) ?? '';
    const terms = await page.$$eval('#description dt', (all) => all.map((each) => each.textContent));
    expect(terms).toEqual(expect.arrayContaining(['Machine', 'Workflow', 'Blocked on', 'To unblock']));
    expect(await textOf('#description')).toContain('CloudCapacity: the cloud has no capacity');
    const life = await page.$$eval('#life li', (steps) => steps.map((each) => each.textContent));
    expect(life).toEqual([
      expect.stringMatching(/^\d{4}-\d{2}-\d{2} \S+Zvalidate/),
      expect.stringMatching(
        /provision \d.* (s|min) so far.*ensureVm.* failed.*ResourceExhausted.*blocked on CloudCapacity for/,
      ),
    ]);
    const widthOf = async (selector: string) =>
      Number(await page.evaluate(`document.querySelector('${selector}').getBoundingClientRect().width`));
    const widths = await Promise.all(['.track', '.bar[data-step=provision]', '.call.failed', '.wait'].map(widthOf));
    expect(widths.every((width) => width > 0 && width <= widths[0]!)).toBe(true);
    await page.emulateMediaType('print');
    expect([await styleOf('#fleet', 'display'), await styleOf('#details', 'position')]).toEqual(['none', 'static']);
    await page.emulateMediaType('screen');
    const uid = (await millwright.machines()).find(({ metadata }) => metadata.name === name)?.metadata.uid ?? '';
    const { namespace } = millwright;
    const id = workflowId(namespace, 'Machine', { dialect: 'gardener', namespace, name, uid });
    const href = await page.$eval('#details a', (link) => link.getAttribute('href'));
    const { runId } = await millwright.temporal.workflow.getHandle(id).describe();
    const ofWorkflow = `workflows/${encodeURIComponent(id)}/${runId}/user-metadata`;
    expect(href).toBe(`https://temporal.example.com/namespaces/default/${ofWorkflow}`);
    expect(page.url()).toBe(`${url}/#${name}`);
    await page.keyboard.press('Escape');
    expect(await page.$('#details[hidden]')).not.toBeNull();
  });

  it('opens a rollout with its machines, bounds, steps, runs and what it waits for', async () => {
    await page.evaluate("document.querySelector('[data-name=pool] h2 button').click()");
    await until('its runs are shown', async (see) => see(await page.$$('#runs li')).length > 0);

    expect(page.url()).toBe(`${url}/#rollout/pool`);
    const drawn = (await textOf('#drawing')) ?? '';
    expect(drawn).toMatch(/5 wanted\. At most 6 may exist, and at least 5 have to be available\./);
    expect(drawn).toMatch(/0 old, 5 new, 3 available/);
    expect(drawn).toMatch(/Waits for.*pool-\S+: .*InsufficientCapacity/);
    expect(await page.$$('.set .cell[data-phase=Running]')).toHaveLength(3);
    const steps = await page.$$eval('#steps li', (all) => all.map((each) => each.textContent));
    expect(steps).toContainEqual(expect.stringMatching(/0 old, 3 new, 3 availablecreates pool-\S+, pool-\S+$/));
    const link = await page.$eval('#runs a', (each) => each.getAttribute('href'));
    expect(link).toMatch(/^https:\/\/temporal\.example\.com\/namespaces\/default\/workflows\/.*\/history$/);

    const [name] = await page.$$eval('.blocker button', (all) => all.map((each) => each.textContent));
    await page.evaluate("document.querySelector('.blocker button').click()");
    expect(page.url()).toBe(`${url}/#${name}`);
    await page.keyboard.press('Escape');
    expect((await fetch(`${url}/deployments/nobody`)).status).toBe(404);
  });

  it('lists a class that is refused, and a sweep that waits for approval with the command for it', async () => {
    const { cloud, namespace } = millwright;
    const providerSpec = { endpoint: cloud.url, machineType: 'hugee', region: 'here', tags: { cluster: namespace } };
    await millwright.createClass('misspelt', { providerSpec });
    await cloud.setFaults();
    for (const name of ['a', 'b', 'c', 'd']) await makeVm(millwright, name);
    await untilOld(millwright);
    expect(await heldSweep(millwright)).toMatchObject({ code: 1 });

    const lines = await until('both are listed', async (see) => {
      const text = see((await textOf('#stuck')) ?? '');
      return text.includes('misspelt') && text.includes('4 orphans') ? text : undefined;
    });
    expect(lines).toMatch(/Source: MachineClass misspelt .*hugee/);
    expect(lines).toMatch(/Brake: orphan sweep \S+ waits for approval: there are 4 orphans/);
    expect(lines).toMatch(/ millwright sweep approve -n .* --( simulated:\S+){4}/);
  });

  it('has no line that is wider than a phone', async () => {
    await page.setViewport({ width: 390, height: 844 });
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390);
    await page.setViewport({ width: 1280, height: 800 });
  });

  it('only reads, and loads nothing from elsewhere', async () => {
    const answer = await fetch(url);
    expect(answer.headers.get('content-security-policy')).toMatch(/^default-src 'self'; frame-ancestors 'none'/);
    expect((await fetch(`${url}/machines/nobody`)).status).toBe(404);
    expect((await fetch(`${url}/page/../server.ts`)).status).toBe(404);
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
      expect((await fetch(`${url}/machines/nobody`, { method })).status).toBe(405);
    }
  });

  it('listens again after an error of a proxy in front of it', async () => {
    const other = await browser.newPage();
    let errors = 0;
    await other.setRequestInterception(true);
    other.on('request', (request) => {
      if (errors > 0 || !request.url().endsWith('/fleet')) return void request.continue();
      errors += 1;
      void request.respond({ status: 502, body: 'Bad Gateway' });
    });
    await other.goto(url);
    await other.waitForSelector('.cell');
    expect(errors).toBe(1);
    await other.waitForSelector('#alarm[hidden]');
    await other.close();
  });

  it('says something from time to time also when nothing changes', async () => {
    const stopping = new AbortController();
    const { body } = await fetch(`${url}/fleet`, { signal: stopping.signal });
    let received = '';
    const reading = (async () => {
      for await (const part of body?.pipeThrough(new TextDecoderStream()) ?? []) received += part;
    })().catch(() => undefined);
    await until('the same is said twice in a row', () => {
      const said = [...received.matchAll(/^data: (\{"namespace.*)$/gm)].map(([, data]) => data);
      return said.some((data, i) => data === said[i + 1]);
    });
    stopping.abort();
    await reading;
  });

  it('refuses more than a hundred who look, until one of them leaves', async () => {
    // With the response: one that nobody has any more is ended by the garbage collector.
    const opened: { readonly response: Response; readonly close: () => void }[] = [];
    while (opened.at(-1)?.response.status !== 503) {
      const closing = new AbortController();
      const response = await fetch(`${url}/fleet`, { signal: closing.signal });
      opened.push({ response, close: () => closing.abort() });
    }
    expect(opened).toHaveLength(100); // the browser is one more
    opened[0]?.close();
    await until('there is room', async () => {
      const closing = new AbortController();
      const { status } = await fetch(`${url}/fleet`, { signal: closing.signal });
      closing.abort();
      return status === 200;
    });
    for (const { close } of opened) close();
  });

  it('asks for few machines at once, and once for those who ask for the same', async () => {
    const statusOf = async (name: string) => (await fetch(`${url}/machines/${name}`)).status;
    const same = await Promise.all(Array.from({ length: 40 }, () => statusOf('nobody')));
    expect(new Set(same)).toEqual(new Set([404]));
    const different = await Promise.all(Array.from({ length: 40 }, (_, i) => statusOf(`nobody-${i}`)));
    expect(new Set(different)).toEqual(new Set([404, 503]));
    await until('it answers again', async (see) => see(await statusOf('somebody')) === 404);
  });

  it('takes only names of objects for a machine', async () => {
    const request = get(`${url}/`, { path: '/machines/.' });
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    expect(await text(response)).toBe('{"error":"nothing is at /machines/."}');
  });

  it('says when the controllers do not answer, and leaves what was known', async () => {
    await millwright.processes[0]?.stop();
    await until('it says so', async (see) => see(await textOf('#alarm'))?.includes('The controllers do not answer'));
    expect(await cells('.cell')).toHaveLength(5);
  });
});
