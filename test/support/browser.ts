/** A browser without a window: Chromium of this machine, or Debian's. */
import { existsSync } from 'node:fs';
import { type Browser, launch } from 'puppeteer-core';
import { canInstallPackages, installPackages } from './packages.ts';
import { isRoot } from './users.ts';

const places = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

function findBrowser(): string | undefined {
  return process.env.MILLWRIGHT_CHROMIUM ?? places.find((place) => existsSync(place));
}

/** Why there can be no browser here, for the title of what is skipped. */
export function lackOfBrowser(): string | undefined {
  if (findBrowser() !== undefined || canInstallPackages()) return undefined;
  return ', which needs Chromium: install it, or give its path in MILLWRIGHT_CHROMIUM';
}

/** The path of the browser, installed first where it is missing. */
export async function ensureBrowser(): Promise<string> {
  if (findBrowser() === undefined) await installPackages('chromium', 'fonts-dejavu-core');
  const path = findBrowser();
  if (path === undefined) throw new Error(`the Debian package chromium has put nothing at ${places[0]}`);
  return path;
}

/** Starts it, installed first where it is missing. Whoever starts it has to close it. */
export async function startBrowser(): Promise<Browser> {
  const executablePath = await ensureBrowser();
  // Chromium's own sandbox does not work for root.
  const args = ['--disable-gpu', '--disable-dev-shm-usage', ...(isRoot ? ['--no-sandbox'] : [])];
  return launch({ executablePath, headless: true, args, defaultViewport: { width: 1280, height: 800 } });
}
