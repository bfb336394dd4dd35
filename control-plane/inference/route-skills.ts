// What the engines of a list of instances can do. Computed once per list of the routing table (`Routes.ready`).
import type { FormatSkill } from "../../proto/api-formats.ts";
import type { Route } from "../fleet/routes.ts";

const skillsOf = new WeakMap<readonly Route[], ReadonlySet<FormatSkill>>();
const structuredOf = new WeakMap<readonly Route[], readonly Route[]>();

/** Returns what every instance can; undefined if there is none. */
export function commonSkills(routes: readonly Route[]): ReadonlySet<FormatSkill> | undefined {
  const [first] = routes;
  if (!first) return undefined;
  let skills = skillsOf.get(routes);
  if (!skills) {
    skills = new Set([...(first.formats ?? [])].filter((skill) => routes.every(({ formats }) => formats?.has(skill))));
    skillsOf.set(routes, skills);
  }
  return skills;
}

/** Returns the instances that enforce structured outputs: the same array for the same list. */
export function structuredRoutes(routes: readonly Route[]): readonly Route[] {
  let structured = structuredOf.get(routes);
  if (!structured) {
    structured = routes.filter(({ formats }) => formats?.has("structured_outputs") === true);
    structuredOf.set(routes, structured);
  }
  return structured;
}
