// Projects of one account in memory.
import type { ProjectRecord, ProjectStore } from "../../control-plane/accounts/project-store.ts";
import { createProjects, type Projects } from "../../control-plane/accounts/projects.ts";
import { projectMonthBudget } from "../../control-plane/billing/scopes.ts";
import type { ProjectId } from "../../proto/ids.ts";

/** `first`: a project that is there, with `keyCount` keys. */
export function fakeProjects(first: ProjectId, keyCount: number): Projects {
  const rows = new Map<ProjectId, ProjectRecord>([
    [first, { project: first, name: "search", monthlyLimit: 5_000_000_000n, spent: 0n, keyCount, createdAtMs: 0 }],
  ]);
  const isTaken = (name: string) => [...rows.values()].some((one) => one.name.toLowerCase() === name.toLowerCase());
  const store: ProjectStore = {
    projects: async () => [...rows.values()],
    async createProject(_account, { id, name }, { limit }, maxCount) {
      if (rows.size >= maxCount) return "too_many";
      if (isTaken(name)) return "name_taken";
      rows.set(id, { project: id, name, monthlyLimit: limit, spent: 0n, keyCount: 0, createdAtMs: 0 });
      return "done";
    },
    async changeProject(_account, id, { name, limit }) {
      const before = rows.get(id);
      if (!before) return "gone";
      if (name !== undefined && name !== before.name && isTaken(name)) return "name_taken";
      rows.set(id, { ...before, ...(name !== undefined && { name }), ...(limit && { monthlyLimit: limit.limit }) });
      return "done";
    },
    async endProject(_account, id) {
      const before = rows.get(id);
      if (!before) return "gone";
      if (before.keyCount > 0) return "has_keys";
      rows.delete(id);
      return "done";
    },
  };
  return createProjects({ store, monthOf: projectMonthBudget });
}
