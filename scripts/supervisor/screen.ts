// Progress output: bars on a terminal, otherwise plain lines.
import { MultiBar, type SingleBar } from "cli-progress";

export interface Step {
  /** Prints a detail of the step, such as a deployment phase. Repeated texts print once. */
  note(text: string): void;
  bytes(done: number, total: number): void;
  done(text?: string): void;
  /** Removes an unfinished step from the screen. */
  drop(): void;
}

export interface Screen {
  step(title: string): Step;
  say(line: string): void;
  warn(line: string): void;
  close(): void;
}

const seconds = (sinceMs: number): string => `${((performance.now() - sinceMs) / 1000).toFixed(1)} s`;
const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(1);

export function openScreen(out: NodeJS.WriteStream, stepCount: number): Screen {
  return out.isTTY ? barScreen(out, stepCount) : lineScreen(out);
}

function lineScreen(out: NodeJS.WriteStream): Screen {
  const say = (line: string): void => void out.write(`${line}\n`);
  return {
    step(title) {
      const startedMs = performance.now();
      let last = "";
      let lastQuarter = -1;
      say(`${title} ...`);
      return {
        note(text) {
          if (text !== last) say(`  ${text}`);
          last = text;
        },
        bytes(done, total) {
          const quarter = total > 0 ? Math.floor((4 * done) / total) : 0;
          if (quarter !== lastQuarter) say(`  ${megabytes(done)} of ${megabytes(total)} MB`);
          lastQuarter = quarter;
        },
        done: (text) => say(`${title}: ${text ?? "ready"} (${seconds(startedMs)})`),
        drop() {},
      };
    },
    say,
    warn: (line) => say(`Warning: ${line}`),
    close() {},
  };
}

function barScreen(out: NodeJS.WriteStream, stepCount: number): Screen {
  const bars = new MultiBar(
    {
      stream: out,
      format: " {bar} {label}",
      barsize: 24,
      hideCursor: true,
      clearOnComplete: true,
      gracefulExit: false,
    },
    { format: "", barCompleteChar: "█", barIncompleteChar: "░" },
  );
  let steps: SingleBar | undefined = bars.create(stepCount, 0, { label: "starting" });
  let finished = 0;
  const say = (line: string): void => {
    if (steps) bars.log(`${line}\n`);
    else out.write(`${line}\n`);
    bars.update();
  };
  return {
    step(title) {
      const startedMs = performance.now();
      let load: SingleBar | undefined;
      const dropLoad = (): void => {
        if (load) bars.remove(load);
        load = undefined;
      };
      steps?.update(finished, { label: title });
      return {
        note: (text) => steps?.update(finished, { label: `${title}: ${text}` }),
        bytes(done, total) {
          load ??= bars.create(total, 0, { label: "" });
          load.setTotal(total);
          load.update(done, { label: `${megabytes(done)} of ${megabytes(total)} MB` });
        },
        done(text) {
          dropLoad();
          finished += 1;
          steps?.update(finished, { label: title });
          say(`${title}: ${text ?? "ready"} (${seconds(startedMs)})`);
        },
        drop: dropLoad,
      };
    },
    say,
    warn: (line) => say(`Warning: ${line}`),
    close() {
      bars.stop();
      steps = undefined;
    },
  };
}
