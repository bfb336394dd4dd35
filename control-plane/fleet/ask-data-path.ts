// A request to a host's data path that is no inference: its proof and logs. A connection each: they are far between.
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import type { DataPathAddress, Dial } from "./dial.ts";

export interface DataPathQuestion {
  readonly method: "GET" | "POST";
  /** With its query. */
  readonly path: string;
  readonly ticket: string;
  /** Whoever answers there may be anybody: a longer answer is an error. */
  readonly mostBytes: number;
}

export interface DataPathAnswer {
  readonly status: number;
  readonly body: string;
}

/** Rejects with what kept it from an answer; why-unreachable.ts says it in words. Redirects are answers. */
export function askDataPath(
  dial: Dial,
  to: DataPathAddress,
  { method, path, ticket, mostBytes }: DataPathQuestion,
  signal: AbortSignal,
): Promise<DataPathAnswer> {
  return new Promise((resolve, reject) => {
    const url = new URL(path, to.origin);
    const ask = url.protocol === "https:" ? httpsRequest : httpRequest;
    const headers = { "x-stoker-ticket": ticket, ...(method === "POST" ? { "content-length": "0" } : {}) };
    const asking = ask(url, { ...dial(to), method, headers, agent: false, signal });
    asking.on("error", reject);
    // Not asked for, and no signal ends a request that has come to it.
    asking.once("upgrade", ({ statusCode }, socket) => {
      socket.destroy();
      reject(new Error(`answered ${statusCode}`));
    });
    asking.once("response", (answer) => {
      const parts: Buffer[] = [];
      let length = 0;
      answer.on("data", (part: Buffer) => {
        parts.push(part);
        length += part.length;
        if (length > mostBytes) answer.destroy(new Error(`answered with more than ${mostBytes} bytes`));
      });
      answer.on("error", reject);
      answer.once("end", () =>
        resolve({ status: answer.statusCode ?? 0, body: Buffer.concat(parts, length).toString("utf8") }),
      );
    });
    asking.end();
  });
}
