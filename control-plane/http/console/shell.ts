// The one page of the console. Everything in it that differs between installations stands in meta elements: the console
// reads them, and no script is written for one visitor.

import { pagePolicy } from "../connections/secure-headers.ts";
import { html } from "../people/html.ts";
import { assetsPath, type ConsoleFiles } from "./console-files.ts";

export interface Shell {
  readonly page: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface Installation {
  /** Whether anybody may create an account. */
  readonly isSignUpOpen: boolean;
  /** Undefined: the one the page was loaded from. */
  readonly publicUrl: string | undefined;
}

export function consoleShell({ version }: ConsoleFiles, { isSignUpOpen, publicUrl }: Installation): Shell {
  const at = `${assetsPath}/${version}`;
  const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
${
  html`<meta name="stoker-sign-up" content="${isSignUpOpen ? "open" : "closed"}">
<meta name="stoker-url" content="${publicUrl ?? ""}">`.text
}
<title>Stoker</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${at}/style.css">
<script type="module" src="${at}/main.ts"></script>
</head>
<body>
<p class="unloaded">The console is not whole: a file of it did not come. <a href="">Load it again</a></p>
<noscript>The console needs JavaScript. The same things are done by the <code>stoker</code> command; the reference of every
endpoint is at <a href="/docs">/docs</a>.</noscript>
</body>
</html>
`;
  return {
    page,
    headers: {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": pagePolicy,
      "x-content-type-options": "nosniff",
      "x-frame-options": "DENY",
      "cross-origin-opener-policy": "same-origin",
      "referrer-policy": "same-origin",
      // It names the files of this release.
      "cache-control": "no-store",
    },
  };
}
