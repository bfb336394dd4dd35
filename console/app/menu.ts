import { pages } from "./navigation.ts";
import type { PageEntry } from "./page-entry.ts";
import { useVisitor } from "./visitor.ts";

/** Pages of the menu that this user may open. */
export function useMenu(): readonly PageEntry[] {
  const { me, operator } = useVisitor();
  return pages.filter(
    ({ icon, section, isForOwner }) =>
      icon !== undefined && (section !== "operator" || me.is_admin) && !(isForOwner && operator),
  );
}
