// Pages of the console for the tests of a file: one browser with one session, a page for each test.
import type { Browser, BrowserContext, Page } from "playwright-core";
import { expect, onTestFinished } from "vitest";
import { goTo, networkChanged } from "../../fakes/browser.ts";
import type { Stack } from "../../fakes/processes.ts";
import { password } from "./page-data.ts";

export interface Visit {
  readonly page: Page;
  /** Errors of the page and of its console. */
  readonly complaints: string[];
  /** URLs. */
  readonly requests: string[];
}

export interface VisitOptions {
  /** Statuses of responses that the test provokes. */
  readonly refused?: readonly number[];
  /** Path of those responses; undefined: any. */
  readonly refusedPath?: string;
  readonly prepare?: (page: Page) => Promise<unknown>;
}

/** Opens a page until the end of the test: a page that stays open polls the server. */
export async function visit(
  context: BrowserContext,
  url: string,
  { refused = [], refusedPath, prepare }: VisitOptions = {},
): Promise<Visit> {
  const page = await context.newPage();
  onTestFinished(() => page.close());
  page.setDefaultTimeout(60_000);
  const complaints: string[] = [];
  const requests: string[] = [];
  page.on("request", (request) => requests.push(request.url()));
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    const text = message.text();
    const isThere = refusedPath === undefined || URL.parse(message.location().url)?.pathname === refusedPath;
    const isRefusal = isThere && refused.some((status) => text.includes(` ${status} `));
    const isExpected = isRefusal || text.includes(networkChanged);
    if (message.type() === "error" && !isExpected) complaints.push(text);
  });
  await prepare?.(page);
  await goTo(page, url);
  return { page, complaints, requests };
}

/** Nobody is signed in. */
export async function newContext(browser: Browser): Promise<BrowserContext> {
  const context = await browser.newContext({ reducedMotion: "reduce" });
  onTestFinished(() => context.close());
  return context;
}

/** Session of an account with `password`, by default the operator. Lasts as long as the browser. */
export async function signedIn(browser: Browser, stack: Stack, email?: string): Promise<BrowserContext> {
  const context = await browser.newContext({ reducedMotion: "reduce" });
  const data = { email: email ?? (await stack.call("GET", "/v1/me")).body.email, password };
  expect((await context.request.post(`${stack.url}/v1/auth/sign-in`, { data })).status()).toBe(200);
  return context;
}
