// Checks that a graph has the inputs and outputs of its task, so that a mismatch is reported before the first request. Pure.
import { LoadFailure } from "../llama/load-failure.ts";
import type { IoInfo, Session } from "./session.ts";

export interface IoNeed {
  readonly name: string;
  readonly types: readonly string[];
  readonly rank: number;
}

export interface GraphNeeds {
  /** Inputs the task can fill; one that the graph has besides is refused. */
  readonly known: readonly IoNeed[];
  /** Those it cannot do without. */
  readonly required: readonly string[];
  /** At least one of these must be given. */
  readonly outputs: readonly IoNeed[];
}

/** Returns the first wanted output that the graph has. Throws LoadFailure. */
export function checkIo(
  graph: string,
  task: string,
  session: Pick<Session, "inputs" | "outputs">,
  needs: GraphNeeds,
): IoNeed {
  const refuse = (what: string) =>
    new LoadFailure(
      "the graph does not fit the task",
      `${graph} ${what}, and ${task} needs it so; its inputs are ${list(session.inputs)}, its outputs ${list(session.outputs)}; export the model for ${task}`,
    );
  for (const name of needs.required)
    if (!session.inputs.some((input) => input.name === name)) throw refuse(`has no input ${name}`);
  for (const input of session.inputs) {
    const known = needs.known.find(({ name }) => name === input.name);
    if (!known) throw refuse(`wants an input ${input.name} that no request can provide`);
    checkOne(input, known, refuse);
  }
  for (const wanted of needs.outputs) {
    const output = session.outputs.find(({ name }) => name === wanted.name);
    if (!output) continue;
    checkOne(output, wanted, refuse);
    return wanted;
  }
  throw refuse(`has no output ${needs.outputs.map(({ name }) => name).join(" or ")}`);
}

function checkOne(found: IoInfo, { types, rank }: IoNeed, refuse: (what: string) => LoadFailure): void {
  if (!types.includes(found.type))
    throw refuse(`has ${found.name} of type ${found.type} and not ${types.join(" or ")}`);
  // A graph may leave its outputs' shapes open.
  if (found.shape.length > 0 && found.shape.length !== rank)
    throw refuse(`has ${found.name} of ${found.shape.length} dimensions and not ${rank}`);
}

const list = (infos: readonly IoInfo[]) =>
  infos
    .map(({ name, type, shape }) => `${name} ${type}[${shape.join(",")}]`)
    .join(", ")
    .slice(0, 300);
