// The HTML page of the console. Values that differ between installations are in meta elements, so no script is generated.
import { randomBytes } from "node:crypto";
import { html } from "../accounts/login-pages.ts";
import { pagePolicy } from "../connections/secure-headers.ts";

export interface Shell {
  /** 503 if the console was not built. */
  readonly status: number;
  readonly page: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface Installation {
  /** True when anyone may create an account. */
  readonly isSignUpOpen: boolean;
  /** Undefined: the one the page was loaded from. */
  readonly publicUrl: string | undefined;
}

const missing = html`<!doctype html><html lang="en"><title>Stoker</title>
<p>The console was not built. On the server, run <code>npm run build</code>, then reload this page. The <code>stoker</code> command
offers the same functions; the reference of all endpoints is at <a href="/docs">/docs</a>.</p></html>
`.text;

/** `built`: the page as it was built; undefined if it was not. */
export function consoleShell(built: string | undefined, { isSignUpOpen, publicUrl }: Installation): Shell {
  const nonce = randomBytes(16).toString("base64url");
  const values: Readonly<Record<string, string>> = {
    STOKER_NONCE: nonce,
    STOKER_SIGN_UP: isSignUpOpen ? "open" : "closed",
    STOKER_URL: html`${publicUrl ?? ""}`.text,
  };
  return {
    status: built === undefined ? 503 : 200,
    page: (built ?? missing).replace(/STOKER_(NONCE|SIGN_UP|URL)/g, (name) => values[name] as string),
    headers: {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": consolePolicy(nonce),
      "x-content-type-options": "nosniff",
      "x-frame-options": "DENY",
      "cross-origin-opener-policy": "same-origin",
      "referrer-policy": "same-origin",
      // It references the files of this release.
      "cache-control": "no-store",
    },
  };
}

/** Scripts come from this server only. Styles also where they carry this response's nonce; media also from what a page received. */
function consolePolicy(nonce: string): string {
  return [
    ...pagePolicy
      .split("; ")
      .map((part) =>
        part.startsWith("style-src ")
          ? `${part} 'nonce-${nonce}'`
          : part.startsWith("img-src ")
            ? `${part} blob:`
            : part,
      ),
    "media-src 'self' blob:",
  ].join("; ");
}
