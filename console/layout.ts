// What stands around every page: the menu, whether the account may spend, and the page itself.

import { useEffect } from "preact/hooks";
import type { SuspendReason } from "../proto/suspend-reason.ts";
import { useApi } from "./api.ts";
import { html, type View } from "./html.ts";
import { useLoaded } from "./loaded.ts";
import { matchPage, pages, type Section } from "./pages.ts";
import { Act } from "./parts/act.ts";
import { usePlace } from "./place.ts";
import { useVisitor } from "./visitor.ts";
import { suspensionInWords } from "./words.ts";

const sections: Readonly<Record<Section, string>> = { use: "Use", money: "Money", operator: "Operator" };

export function Layout(): View {
  const { me, signOut } = useVisitor();
  const { path } = usePlace();
  const found = matchPage(path);
  const mayOpen = found && (found.page.section !== "operator" || me.is_admin);
  const title = found?.page.title ?? "No such page";
  useEffect(() => {
    document.title = `${title} · Stoker`;
  }, [title]);

  return html`<div class="frame">
    <nav aria-label="Console">
      <a class="brand" href="/console">Stoker</a>
      ${(Object.keys(sections) as Section[])
        .filter((section) => section !== "operator" || me.is_admin)
        .map(
          (section) =>
            html`<h2>${sections[section]}</h2><ul>${pages
              .filter((page) => page.section === section && !page.path.includes(":"))
              .map(
                (page) => html`<li><a href=${`/console${page.path === "/" ? "" : page.path}`}
                aria-current=${found?.page === page ? "page" : undefined}>${page.title}</a></li>`,
              )}</ul>`,
        )}
      <p class="who">${me.display_name}<br /><small>${me.email ?? ""}</small></p>
      <${Act} label="Sign out" onAct=${signOut} />
      <p><a href="/docs">Reference</a></p>
    </nav>
    <main>
      <${Standing} />
      ${
        mayOpen
          ? html`<h1>${title}</h1><${found.page.show} key=${path} ...${found.params} />`
          : html`<h1>No such page</h1><p>There is nothing at this address. <a href="/console">Go to the first page</a>.</p>`
      }
    </main>
  </div>`;
}

interface Checklist {
  readonly suspended: boolean;
  readonly suspend_reason: SuspendReason | null;
}

/** On every page, because every page's requests are refused for it. */
function Standing(): View {
  const api = useApi();
  const { value } = useLoaded(() => api.call<Checklist>("GET", "/payment/checklist"), [api], 60_000);
  if (!value?.suspended || !value.suspend_reason) return null;
  const { why, act, page } = suspensionInWords(value.suspend_reason);
  return html`<p class="banner" role="status">▲ ${why} ${page ? html`<a href=${page}>${act}</a>.` : act}</p>`;
}
