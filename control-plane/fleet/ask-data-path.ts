// Sends a request other than inference to a host's data path: proof and logs. Each uses its own connection, because they are
// rare.
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import type { DataPathAddress, Dial } from "./dial.ts";

export interface DataPathQuestion {
  readonly method: "GET" | "POST";
  /** Including its query. */
  readonly path: string;
  readonly ticket: string;
  /** The responder is not trusted: a longer response is an error. */
  readonly maxBytes: number;
}

export interface DataPathAnswer {
  readonly status: number;
  readonly body: string;
}

/** Rejects with the cause; why-unreachable.ts describes it. Redirects count as responses. */
export function askDataPath(
  dial: Dial,
  to: DataPathAddress,
  { method, path, ticket, maxBytes }: DataPathQuestion,
  signal: AbortSignal,
): Promise<DataPathAnswer> {
  return new Promise((resolve, reject) => {
    const url = new URL(path, to.origin);
    const ask = url.protocol === "https:" ? httpsRequest : httpRequest;
    const headers = { "x-stoker-ticket": ticket, ...(method === "POST" ? { "content-length": "0" } : {}) };
    const asking = ask(url, { ...dial(to), method, headers, agent: false, signal });
    asking.on("error", reject);
    // Unsolicited; no signal ends an upgraded request.
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
        if (length > maxBytes) answer.destroy(new Error(`answered with more than ${maxBytes} bytes`));
      });
      answer.on("error", reject);
      answer.once("end", () =>
        resolve({ status: answer.statusCode ?? 0, body: Buffer.concat(parts, length).toString("utf8") }),
      );
    });
    asking.end();
  });
}
