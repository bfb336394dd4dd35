// Creates the next key-encryption key and re-wraps all data keys with it. Run by `stoker admin rotate-kek` on a host with the
// secrets, while control planes run or not. A repeated run continues where the last one stopped.
import { resealers, rotationReport } from "./accounts/kek-rotation.ts";
import { rotateKek } from "./accounts/rotate-kek.ts";
import { bySystem } from "./act.ts";
import { createKekStore } from "./store/core/kek-store.ts";
import { runOperatorCommand } from "./wiring/operator-command.ts";

await runOperatorCommand(
  async ({ db, secrets }) => {
    const rotation = await rotateKek(
      {
        store: createKekStore(db),
        secrets,
        reseal: resealers(secrets),
        act: bySystem("stoker admin rotate-kek, on the host"),
        print: (line) => void process.stderr.write(`${line}\n`),
      },
      { waitMs: 60_000, pollMs: 250, aliveMs: 30_000, batch: 500 },
    );
    const report = rotationReport(rotation, secrets);
    if (!report.isWhole) process.exitCode = 1;
    return report.text;
  },
  // A count over many accounts may take longer than a request may.
  { statementTimeoutMs: 60_000 },
);
