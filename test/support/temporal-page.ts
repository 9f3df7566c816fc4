/** The page of a workflow in the Temporal UI, as people read it. */
import type { Browser } from 'puppeteer-core';
import { fromSetup } from './installation.ts';
import { until } from './until.ts';

/** Opens its tab User Metadata and waits until that shows all of these texts. Throws with what it shows instead. */
export async function readWorkflowPage(
  browser: Browser,
  { workflowId, runId }: { readonly workflowId: string; readonly runId: string },
  texts: readonly string[],
): Promise<void> {
  const page = await browser.newPage();
  let shown = '';
  try {
    const ui = fromSetup('MILLWRIGHT_TEST_TEMPORAL_UI');
    await page.goto(`${ui}/namespaces/default/workflows/${encodeURIComponent(workflowId)}/${runId}/user-metadata`);
    await until(
      `the page of ${workflowId} shows ${texts.join(', ')}`,
      async () => {
        // What a workflow writes is Markdown, which the UI shows in a frame.
        const parts = page.frames().map((frame) => frame.evaluate('document.body?.innerText'));
        shown = (await Promise.all(parts)).join('\n');
        return texts.every((text) => shown.includes(text));
      },
      { timeoutMs: 20_000, describe: () => shown },
    );
  } finally {
    await page.close();
  }
}
