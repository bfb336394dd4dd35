// The HTML page of the console. Values that differ between installations are in meta elements, so no script is generated.

import { html } from "../accounts/login-pages.ts";
import { pagePolicy } from "../connections/secure-headers.ts";
import { assetsPath, type ConsoleFiles } from "./console-files.ts";

export interface Shell {
  readonly page: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface Installation {
  /** True when anyone may create an account. */
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
<p class="unloaded">A file of the console could not be loaded. <a href="">Reload</a></p>
<noscript>The console requires JavaScript. The <code>stoker</code> command offers the same functions; the reference of all
endpoints is at <a href="/docs">/docs</a>.</noscript>
</body>
</html>
`;
  return {
    page,
    headers: shellHeaders(pagePolicy),
  };
}

/** Headers of the page of a console. `policy`: its content security policy. */
export function shellHeaders(policy: string): Readonly<Record<string, string>> {
  return {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": policy,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "same-origin",
    // It references the files of this release.
    "cache-control": "no-store",
  };
}
