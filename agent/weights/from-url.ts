// Fetches one file from a customer's URL and identifies it by its sha256. A fetched file is not requested again: another file
// under the same URL is another adapter.
import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import type { Logger } from "pino";
import type { AddressRules } from "../../proto/address-rules.ts";
import type { Cache } from "./cache.ts";
import { maxImageLoraBytes } from "./choose-file.ts";
import type { Content, DownloadSource } from "./download.ts";
import type { Kept } from "./kept.ts";
import type { Progress } from "./progress.ts";
import { type PublicWeb, readPublicUrl } from "./public-web.ts";
import type { Source } from "./source.ts";
import type { WebAnswer } from "./web.ts";
import { WeightsError } from "./weights-error.ts";

type UrlSource = Extract<Source, { kind: "url" }>;

interface UrlParts {
  readonly cache: Cache;
  readonly web: PublicWeb;
  readonly rules: AddressRules;
  readonly log: Logger;
}

/** Name of the file for the engine, whatever its name in the URL. */
const fileName = "adapter_model.safetensors";

export function createFetchUrl({ cache, web, rules, log }: UrlParts) {
  return async (key: string, source: UrlSource, onProgress: Progress, signal: AbortSignal): Promise<Kept> => {
    const last = await cache.kept.recall(key);
    if (last && (await cache.isWhole(last, signal))) return last;
    const url = readPublicUrl(source.url, rules);
    const content: Content = {
      // The server of another customer must not hold the download of the same file.
      key: createHash("sha256")
        .update(JSON.stringify([source.url, source.token ?? "", source.sha256 ?? ""]))
        .digest("hex"),
      sha256: source.sha256,
      gitSha1: undefined,
      sizeBytes: source.sizeBytes,
      isUnannounced: source.sha256 === undefined,
    };
    const authorization = source.token === undefined ? undefined : `Bearer ${source.token}`;
    const from: DownloadSource = {
      name: "url",
      async open({ from: at, tag }, inner) {
        // Without a validator the rest of another file might follow.
        const headers: Record<string, string> =
          at > 0 && tag !== undefined ? { range: `bytes=${at}-`, "if-range": tag } : {};
        const answer = await web.open(url, headers, authorization, inner);
        try {
          const { length, most } = sizeOf(answer, at, url.host);
          // A reply from the start replaces the partial file.
          const here = answer.status === 206 ? 0 : at;
          await cache.needSpace([], Math.max(0, (length ?? most) - here), inner);
          return { ...answer, body: Readable.from(counted(answer.body, most, url.host)) };
        } catch (error) {
          answer.body.on("error", () => {}).destroy();
          throw error;
        }
      },
    };
    const doneAssembling = cache.holders.assemble(key, source.sha256 === undefined ? [] : [source.sha256]);
    try {
      const fetch = { content, sources: [from], setting: "the adapter's source", isFleeting: true, onProgress };
      const blob = await cache.bring(fetch, signal).catch((error) => {
        throw isOtherFile(error) && source.sha256 !== undefined ? changed(url.host) : error;
      });
      const files = [{ path: fileName, ...blob }];
      const set = { repo: `url:${url.host}`, revision: blob.sha256, commit: blob.sha256, entry: fileName, files };
      await cache.kept.remember(key, set);
      log.info({ host: url.host, sha256: blob.sha256, bytes: blob.sizeBytes }, "weights here");
      return set;
    } finally {
      doneAssembling();
    }
  };
}

/** Returns the bytes that a reply sends and may send at most, after the `at` bytes present. Throws for a reply without the file. */
function sizeOf(
  answer: WebAnswer,
  at: number,
  host: string,
): { readonly length: number | undefined; readonly most: number } {
  const { status } = answer;
  if (![200, 206, 416].includes(status)) throw refusalOf(status, host);
  // Limit the file, not the reply: it may arrive in several replies.
  const most = maxImageLoraBytes - (status === 206 ? at : 0);
  const announced = Number(answer.header("content-length") ?? Number.NaN);
  const length = Number.isSafeInteger(announced) ? announced : undefined;
  if ((length ?? 0) > most) throw tooLong(host);
  return { length, most };
}

async function* counted(body: Readable, most: number, host: string): AsyncGenerator<Buffer> {
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > most) throw tooLong(host);
    yield chunk;
  }
}

function refusalOf(status: number, host: string): WeightsError {
  if (status === 401 || status === 403)
    return failed(
      "source_denied",
      false,
      `${host} does not give the adapter to us (${status}): give a token in \`source.token\`, or a URL that needs none.`,
    );
  if (status === 404 || status === 410)
    return failed("source_not_found", false, `${host} has no file at the adapter's URL (${status}): correct the URL.`);
  const isOurs = status >= 400 && status < 500 && status !== 408 && status !== 429;
  return failed(
    "source_failed",
    !isOurs,
    `${host} answered ${status} instead of the adapter: see there whether the URL is right${isOurs ? "" : "; it is tried again"}.`,
  );
}

const tooLong = (host: string) =>
  failed(
    "source_refused",
    false,
    `${host} sends more than ${maxImageLoraBytes} bytes, the most for an image adapter: give the URL of the adapter alone.`,
  );

const isOtherFile = (error: unknown) => error instanceof WeightsError && error.code === "hub_checksum_mismatch";

const changed = (host: string) =>
  failed(
    "source_changed",
    false,
    `${host} has another file at the adapter's URL than the adapter's file (its sha256 differs). Restore that file, or create a new adapter from this one.`,
  );

function failed(
  code: "source_denied" | "source_not_found" | "source_failed" | "source_refused" | "source_changed",
  retryable: boolean,
  text: string,
) {
  return new WeightsError(code, text, { retryable });
}
