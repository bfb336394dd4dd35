// HTTP client for the control planes of this `up`, with TLS if the public port uses it.
import { readFileSync } from "node:fs";
import { Agent, fetch, type RequestInit, type Response } from "undici";

export interface OwnApi {
  readonly scheme: "http" | "https";
  fetch(url: string, init: RequestInit): Promise<Response>;
}

/** `certFile`: STOKER_TLS_CERT. */
export function ownApi(certFile: string | undefined): OwnApi {
  if (!certFile) return { scheme: "http", fetch };
  return {
    scheme: "https",
    async fetch(url, init) {
      // Trusts exactly this certificate for any name, because it rarely contains this machine's address. Read each time, because
      // it may be renewed.
      const connect = {
        ca: readFileSync(certFile),
        allowPartialTrustChain: true,
        checkServerIdentity: () => undefined,
      };
      const dispatcher = new Agent({ connect });
      const response = await fetch(url, { ...init, dispatcher });
      // Closes after the body is read.
      void dispatcher.close().catch(() => {});
      return response;
    },
  };
}
