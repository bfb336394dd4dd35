// Ends of processes that nobody caused are defects, except for those that the documentation promises.
import type { Exit } from "../../fakes/processes.ts";

/** Every way in which a process may end by itself while faults last. */
const documented: readonly { readonly code: number; readonly output: RegExp; readonly reference: string }[] = [
  {
    code: 75,
    output: /control-plane: PostgreSQL (failed while the control plane started|at .* could not be reached)/,
    reference: "docs/operations/control-planes.md, What happens when a control plane stops",
  },
];

/** `isArmed`: the fault point that kills an agent after its next record was set for it. Undefined: the end was caused or is documented. */
export function unexpectedEnd({ name, code, signal, sent, output }: Exit, isArmed: boolean): string | undefined {
  if (signal !== null && signal === sent) return undefined;
  if (signal === "SIGKILL" && isArmed) return undefined;
  if (documented.some((one) => one.code === code && one.output.test(output))) return undefined;
  const how = signal === null ? `with code ${code}` : `of ${signal}, which nobody sent`;
  return `${name} ended ${how}; its last lines:\n${output.trimEnd().split("\n").slice(-8).join("\n")}`;
}
