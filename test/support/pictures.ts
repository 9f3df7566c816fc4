/** Pictures of web pages for the documentation, which `npm run screenshots` has the tests take. */
import { join } from 'node:path';
import type { Page } from 'puppeteer-core';

/** Environment variable with the folder that pictures go to. */
export const picturesVariable = 'MILLWRIGHT_TEST_PICTURES';

/** Whether pictures are taken in this run. Then names are those that people may read. */
export const arePicturesTaken = process.env[picturesVariable] !== undefined;

/** A part of what is in the window, px. */
export interface Clip {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** Takes a picture of a part of the window, or of all, `<name>.png`, if this run takes pictures. */
export async function takePicture(page: Page, name: string, clip?: () => Promise<Clip>): Promise<void> {
  const folder = process.env[picturesVariable];
  if (folder === undefined) return;
  const path = `${join(folder, name)}.png` as const;
  await page.screenshot({ path, ...(clip !== undefined && { clip: await clip() }) });
}
