// Frame of every page: menu, suspension banner, page.

import { useEffect } from "preact/hooks";
import type { Responses } from "../proto/gen/responses.ts";
import { html, type View } from "./html.ts";
import { useGet } from "./loaded.ts";
import { matchPage, pages, type Section } from "./pages.ts";
import { Act } from "./parts/controls.ts";
import { usePlace } from "./place.ts";
import { useVisitor } from "./visitor.ts";
import { suspensionOf } from "./words.ts";

const sections: Readonly<Record<Section, string>> = { use: "Use", money: "Money", operator: "Operator" };

export function Layout(): View {
  const { me, signOut } = useVisitor();
  const { path } = usePlace();
  const found = matchPage(path);
  const mayOpen = found && (found.page.section !== "operator" || me.is_admin);
  const title = found?.page.title ?? "Page not found";
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
      <p><a href="/docs">API reference</a></p>
      <p><a href="/console/next" target="_self">New console (preview)</a></p>
    </nav>
    <main>
      <${SuspensionBanner} />
      ${
        mayOpen
          ? html`<h1>${title}</h1><${found.page.show} key=${path} ...${found.params} />`
          : html`<h1>Page not found</h1><p><a href="/console">Go to the start page</a>.</p>`
      }
    </main>
  </div>`;
}

type Checklist = Responses["GET /payment/checklist"];

/** Shown on every page while the account is suspended. */
function SuspensionBanner(): View {
  const { value } = useGet<Checklist>("/payment/checklist", 60_000);
  if (!value?.suspended || !value.suspend_reason) return null;
  const { why, act, page } = suspensionOf(value.suspend_reason);
  return html`<p class="banner" role="status">▲ ${why} ${page ? html`<a href=${page}>${act}</a>.` : act}</p>`;
}
