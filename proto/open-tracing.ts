import type { TracedProcess, Tracing } from "./tracing.ts";
import type { TracingSettings } from "./tracing-settings.ts";

/** Undefined without an exporter: then OpenTelemetry's packages are not loaded. */
export async function openTracing(
  settings: TracingSettings | undefined,
  of: TracedProcess,
): Promise<Tracing | undefined> {
  if (!settings) return undefined;
  const { createOpenTelemetry } = await import("./open-telemetry.ts");
  return createOpenTelemetry(settings, of);
}
