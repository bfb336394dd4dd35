// Writes the boards to deploy/grafana, one file each. With a folder it writes there instead (scripts/suites/checks.ts).
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { boards } from "./boards.ts";
import { grafanaOf } from "./grafana.ts";

const folder = join(process.argv[2] ?? join(import.meta.dirname, "../.."), "deploy/grafana");
mkdirSync(folder, { recursive: true });
for (const board of boards)
  writeFileSync(join(folder, `${board.id}.json`), `${JSON.stringify(grafanaOf(board), null, 2)}\n`);
