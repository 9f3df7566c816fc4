/** The page of a workflow in the Temporal UI, as people read it. */
import type { Browser, Page } from 'puppeteer-core';
import { fromSetup } from './installation.ts';
import { takePicture } from './pictures.ts';
import { until } from './until.ts';

/** After how long a page that does not show what is expected is loaded again at first, ms; then after twice as long. */
const firstReloadMs = 5_000;

/** A tab of the page, and where the part of it begins that people read. */
const tabs = {
  'user-metadata': { from: 'User Metadata', height: 560 },
  history: { from: 'Workflow Worker Unhandled Failure', height: 400 },
} as const;

export interface PageOptions {
  readonly tab: keyof typeof tabs;
  readonly texts: readonly string[];
  /** Name of the picture that may be taken. */
  readonly picture: string;
}

/** Opens a tab and waits until that shows all of these texts. Throws with what it shows instead. */
export async function readWorkflowPage(
  browser: Browser,
  { workflowId, runId }: { readonly workflowId: string; readonly runId: string },
  { tab, texts, picture }: PageOptions,
): Promise<void> {
  const page = await browser.newPage();
  let shown = '';
  try {
    await page.setViewport({ width: 1280, height: 1400 });
    const ui = fromSetup('MILLWRIGHT_TEST_TEMPORAL_UI');
    const url = `${ui}/namespaces/default/workflows/${encodeURIComponent(workflowId)}/${runId}/${tab}`;
    await page.goto(url);
    let reloadMs = firstReloadMs;
    let loadedAt = Date.now();
    await until(
      `the page of ${workflowId} shows ${texts.join(', ')}`,
      async () => {
        // What a workflow writes is Markdown, which the UI shows in a frame.
        const parts = page.frames().map((frame) => frame.evaluate('document.body?.innerText'));
        shown = (await Promise.all(parts)).join('\n');
        if (texts.every((text) => shown.includes(text))) return true;
        // It shows what was so when it was loaded.
        if (Date.now() > loadedAt + reloadMs) {
          await page.goto(url);
          loadedAt = Date.now();
          reloadMs *= 2; // a busy browser may not have shown anything yet
        }
        return false;
      },
      { describe: () => shown },
    );
    const { from, height } = tabs[tab];
    await takePicture(page, picture, async () => ({ x: 220, y: (await topOf(page, from)) - 16, width: 1044, height }));
  } finally {
    await page.close();
  }
}

/** Where the innermost element with a text begins, px from the top of the window. */
async function topOf(page: Page, text: string): Promise<number> {
  const tops = await page.$$eval(
    'main *',
    (elements, wanted) =>
      elements.filter((each) => each.textContent?.trim() === wanted).map((each) => each.getBoundingClientRect().top),
    text,
  );
  return tops.at(-1) ?? 16;
}
