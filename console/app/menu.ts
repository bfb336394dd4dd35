import { pages } from "./navigation.ts";
import type { PageEntry } from "./page-entry.ts";
import { mayDo, useVisitor } from "./visitor.ts";

/** Pages of the menu that this user may open. */
export function useMenu(): readonly PageEntry[] {
  const visitor = useVisitor();
  const { me, operator } = visitor;
  return pages.filter(
    ({ icon, section, isForOwner, reads = "read" }) =>
      icon !== undefined &&
      (section !== "operator" || me.is_admin) &&
      !(isForOwner && operator) &&
      mayDo(visitor, reads),
  );
}
