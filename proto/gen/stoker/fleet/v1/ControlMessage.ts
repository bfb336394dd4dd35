// Original file: proto/fleet/v1/fleet.proto

import type { Welcome as _stoker_fleet_v1_Welcome, Welcome__Output as _stoker_fleet_v1_Welcome__Output } from '../../../stoker/fleet/v1/Welcome.ts';
import type { LeaseRenewed as _stoker_fleet_v1_LeaseRenewed, LeaseRenewed__Output as _stoker_fleet_v1_LeaseRenewed__Output } from '../../../stoker/fleet/v1/LeaseRenewed.ts';
import type { DesiredState as _stoker_fleet_v1_DesiredState, DesiredState__Output as _stoker_fleet_v1_DesiredState__Output } from '../../../stoker/fleet/v1/DesiredState.ts';
import type { UsageAck as _stoker_fleet_v1_UsageAck, UsageAck__Output as _stoker_fleet_v1_UsageAck__Output } from '../../../stoker/fleet/v1/UsageAck.ts';
import type { Command as _stoker_fleet_v1_Command, Command__Output as _stoker_fleet_v1_Command__Output } from '../../../stoker/fleet/v1/Command.ts';
import type { Neighbours as _stoker_fleet_v1_Neighbours, Neighbours__Output as _stoker_fleet_v1_Neighbours__Output } from '../../../stoker/fleet/v1/Neighbours.ts';

export interface ControlMessage {
  'welcome'?: (_stoker_fleet_v1_Welcome | null);
  'renewed'?: (_stoker_fleet_v1_LeaseRenewed | null);
  'desired'?: (_stoker_fleet_v1_DesiredState | null);
  'usageAck'?: (_stoker_fleet_v1_UsageAck | null);
  'command'?: (_stoker_fleet_v1_Command | null);
  'neighbours'?: (_stoker_fleet_v1_Neighbours | null);
  'body'?: "welcome"|"renewed"|"desired"|"usageAck"|"command"|"neighbours";
}

export interface ControlMessage__Output {
  'welcome'?: (_stoker_fleet_v1_Welcome__Output | null);
  'renewed'?: (_stoker_fleet_v1_LeaseRenewed__Output | null);
  'desired'?: (_stoker_fleet_v1_DesiredState__Output | null);
  'usageAck'?: (_stoker_fleet_v1_UsageAck__Output | null);
  'command'?: (_stoker_fleet_v1_Command__Output | null);
  'neighbours'?: (_stoker_fleet_v1_Neighbours__Output | null);
  'body'?: "welcome"|"renewed"|"desired"|"usageAck"|"command"|"neighbours";
}
