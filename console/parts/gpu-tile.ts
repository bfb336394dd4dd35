import { type Gpu, healthOf } from "../fleet.ts";
import { bytes, percent } from "../format.ts";
import { html, type View } from "../html.ts";

/** `host`: shown if tiles of several hosts are mixed. */
export function GpuTile({ gpu, host }: { gpu: Gpu; host?: { readonly id: string; readonly name: string } }): View {
  const { sign, word, isFaulty } = healthOf(gpu);
  return html`<div class=${isFaulty ? "tile sick" : "tile"}>
    <div>${sign} ${host && html`<a href=${`/console/nodes/${host.id}`}>${host.name}</a>`} #${gpu.index}</div>
    <div class="quiet">${gpu.type}, ${word}</div>
    <label>Utilization ${percent(gpu.utilization_ratio)}<meter min="0" max="1" value=${gpu.utilization_ratio ?? 0}></meter></label>
    <label>${gpu.memory_used_bytes === null ? "–" : bytes(gpu.memory_used_bytes)} of ${bytes(gpu.memory_bytes)}
      <meter min="0" max=${gpu.memory_bytes || 1} value=${gpu.memory_used_bytes ?? 0}></meter></label>
    <div>${gpu.temperature_celsius === null ? "" : `${gpu.temperature_celsius} °C`}${" "}${gpu.power_watts === null ? "" : `${Math.round(gpu.power_watts)} W of ${gpu.power_limit_watts ?? "–"}`}</div>
    ${gpu.deploy_id && html`<div><code>${gpu.deploy_id}</code></div>`}
  </div>`;
}
