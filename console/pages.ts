// Every page with its address. The menu is made of those without a parameter.
import type { FunctionComponent } from "preact";
import { Billing } from "./pages/billing.ts";
import { Keys } from "./pages/keys.ts";
import { Start } from "./pages/start.ts";

export type Section = "use" | "money" | "operator";

export interface Page {
  /** Without `/console`; `:name` stands for one part and is handed to the page. */
  readonly path: string;
  readonly title: string;
  readonly section: Section;
  readonly show: FunctionComponent<Record<string, string>>;
}

// A page names the parameters that its own path has.
const page = <Params>(path: string, title: string, section: Section, show: FunctionComponent<Params>): Page => ({
  path,
  title,
  section,
  show: show as FunctionComponent<Record<string, string>>,
});

export const pages: readonly Page[] = [
  page("/", "First call", "use", Start),
  page("/keys", "Keys", "use", Keys),
  page("/billing", "Billing", "money", Billing),
];

export interface Match {
  readonly page: Page;
  readonly params: Readonly<Record<string, string>>;
}

export function matchPage(path: string): Match | undefined {
  const parts = path.split("/");
  for (const page of pages) {
    const wanted = page.path.split("/");
    if (wanted.length !== parts.length) continue;
    const isIt = wanted.every((part, i) => part.startsWith(":") || part === parts[i]);
    if (!isIt) continue;
    const named = wanted.flatMap((part, i) =>
      part.startsWith(":") ? [[part.slice(1), decodeURIComponent(parts[i] as string)] as const] : [],
    );
    return { page, params: Object.fromEntries(named) };
  }
  return undefined;
}
