// Original file: proto/fleet/v1/fleet.proto

import type { Hello as _stoker_fleet_v1_Hello, Hello__Output as _stoker_fleet_v1_Hello__Output } from '../../../stoker/fleet/v1/Hello.ts';
import type { Renew as _stoker_fleet_v1_Renew, Renew__Output as _stoker_fleet_v1_Renew__Output } from '../../../stoker/fleet/v1/Renew.ts';
import type { HostReport as _stoker_fleet_v1_HostReport, HostReport__Output as _stoker_fleet_v1_HostReport__Output } from '../../../stoker/fleet/v1/HostReport.ts';
import type { UsageBatch as _stoker_fleet_v1_UsageBatch, UsageBatch__Output as _stoker_fleet_v1_UsageBatch__Output } from '../../../stoker/fleet/v1/UsageBatch.ts';
import type { CommandResult as _stoker_fleet_v1_CommandResult, CommandResult__Output as _stoker_fleet_v1_CommandResult__Output } from '../../../stoker/fleet/v1/CommandResult.ts';
import type { WeightsWanted as _stoker_fleet_v1_WeightsWanted, WeightsWanted__Output as _stoker_fleet_v1_WeightsWanted__Output } from '../../../stoker/fleet/v1/WeightsWanted.ts';

export interface AgentMessage {
  'hello'?: (_stoker_fleet_v1_Hello | null);
  'renew'?: (_stoker_fleet_v1_Renew | null);
  'report'?: (_stoker_fleet_v1_HostReport | null);
  'usage'?: (_stoker_fleet_v1_UsageBatch | null);
  'commandResult'?: (_stoker_fleet_v1_CommandResult | null);
  'weightsWanted'?: (_stoker_fleet_v1_WeightsWanted | null);
  'body'?: "hello"|"renew"|"report"|"usage"|"commandResult"|"weightsWanted";
}

export interface AgentMessage__Output {
  'hello'?: (_stoker_fleet_v1_Hello__Output | null);
  'renew'?: (_stoker_fleet_v1_Renew__Output | null);
  'report'?: (_stoker_fleet_v1_HostReport__Output | null);
  'usage'?: (_stoker_fleet_v1_UsageBatch__Output | null);
  'commandResult'?: (_stoker_fleet_v1_CommandResult__Output | null);
  'weightsWanted'?: (_stoker_fleet_v1_WeightsWanted__Output | null);
  'body'?: "hello"|"renew"|"report"|"usage"|"commandResult"|"weightsWanted";
}
