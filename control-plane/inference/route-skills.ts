// What the engines of a list of instances can do. Computed once per list of the routing table (`Routes.ready`).
import type { FormatSkill } from "../../proto/api-formats.ts";
import { oncePer } from "../../proto/once-per.ts";
import type { Route } from "../fleet/routes.ts";

/** Returns what every instance can; undefined if there is none. */
export const commonSkills = oncePer((routes: readonly Route[]): ReadonlySet<FormatSkill> | undefined => {
  const [first] = routes;
  return (
    first && new Set([...(first.formats ?? [])].filter((skill) => routes.every(({ formats }) => formats?.has(skill))))
  );
});

/** Returns the instances that enforce structured outputs: the same array for the same list. */
export const structuredRoutes = oncePer((routes: readonly Route[]): readonly Route[] =>
  routes.filter(({ formats }) => formats?.has("structured_outputs") === true),
);
