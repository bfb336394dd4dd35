import type * as grpc from '@grpc/grpc-js';
import type { MessageTypeDefinition } from '@grpc/proto-loader';

import type { Adapter as _stoker_fleet_v1_Adapter, Adapter__Output as _stoker_fleet_v1_Adapter__Output } from './stoker/fleet/v1/Adapter.ts';
import type { AdapterReport as _stoker_fleet_v1_AdapterReport, AdapterReport__Output as _stoker_fleet_v1_AdapterReport__Output } from './stoker/fleet/v1/AdapterReport.ts';
import type { AgentInstance as _stoker_fleet_v1_AgentInstance, AgentInstance__Output as _stoker_fleet_v1_AgentInstance__Output } from './stoker/fleet/v1/AgentInstance.ts';
import type { AgentMessage as _stoker_fleet_v1_AgentMessage, AgentMessage__Output as _stoker_fleet_v1_AgentMessage__Output } from './stoker/fleet/v1/AgentMessage.ts';
import type { Certificate as _stoker_fleet_v1_Certificate, Certificate__Output as _stoker_fleet_v1_Certificate__Output } from './stoker/fleet/v1/Certificate.ts';
import type { Command as _stoker_fleet_v1_Command, Command__Output as _stoker_fleet_v1_Command__Output } from './stoker/fleet/v1/Command.ts';
import type { CommandResult as _stoker_fleet_v1_CommandResult, CommandResult__Output as _stoker_fleet_v1_CommandResult__Output } from './stoker/fleet/v1/CommandResult.ts';
import type { ContainerRules as _stoker_fleet_v1_ContainerRules, ContainerRules__Output as _stoker_fleet_v1_ContainerRules__Output } from './stoker/fleet/v1/ContainerRules.ts';
import type { ControlMessage as _stoker_fleet_v1_ControlMessage, ControlMessage__Output as _stoker_fleet_v1_ControlMessage__Output } from './stoker/fleet/v1/ControlMessage.ts';
import type { DesiredState as _stoker_fleet_v1_DesiredState, DesiredState__Output as _stoker_fleet_v1_DesiredState__Output } from './stoker/fleet/v1/DesiredState.ts';
import type { Disk as _stoker_fleet_v1_Disk, Disk__Output as _stoker_fleet_v1_Disk__Output } from './stoker/fleet/v1/Disk.ts';
import type { EnrollRequest as _stoker_fleet_v1_EnrollRequest, EnrollRequest__Output as _stoker_fleet_v1_EnrollRequest__Output } from './stoker/fleet/v1/EnrollRequest.ts';
import type { FleetClient as _stoker_fleet_v1_FleetClient, FleetDefinition as _stoker_fleet_v1_FleetDefinition } from './stoker/fleet/v1/Fleet.ts';
import type { Gpu as _stoker_fleet_v1_Gpu, Gpu__Output as _stoker_fleet_v1_Gpu__Output } from './stoker/fleet/v1/Gpu.ts';
import type { GpuLoad as _stoker_fleet_v1_GpuLoad, GpuLoad__Output as _stoker_fleet_v1_GpuLoad__Output } from './stoker/fleet/v1/GpuLoad.ts';
import type { GpuProcess as _stoker_fleet_v1_GpuProcess, GpuProcess__Output as _stoker_fleet_v1_GpuProcess__Output } from './stoker/fleet/v1/GpuProcess.ts';
import type { Hello as _stoker_fleet_v1_Hello, Hello__Output as _stoker_fleet_v1_Hello__Output } from './stoker/fleet/v1/Hello.ts';
import type { HostLoad as _stoker_fleet_v1_HostLoad, HostLoad__Output as _stoker_fleet_v1_HostLoad__Output } from './stoker/fleet/v1/HostLoad.ts';
import type { HostReport as _stoker_fleet_v1_HostReport, HostReport__Output as _stoker_fleet_v1_HostReport__Output } from './stoker/fleet/v1/HostReport.ts';
import type { InstanceReport as _stoker_fleet_v1_InstanceReport, InstanceReport__Output as _stoker_fleet_v1_InstanceReport__Output } from './stoker/fleet/v1/InstanceReport.ts';
import type { InstanceSpec as _stoker_fleet_v1_InstanceSpec, InstanceSpec__Output as _stoker_fleet_v1_InstanceSpec__Output } from './stoker/fleet/v1/InstanceSpec.ts';
import type { Inventory as _stoker_fleet_v1_Inventory, Inventory__Output as _stoker_fleet_v1_Inventory__Output } from './stoker/fleet/v1/Inventory.ts';
import type { KeptWeights as _stoker_fleet_v1_KeptWeights, KeptWeights__Output as _stoker_fleet_v1_KeptWeights__Output } from './stoker/fleet/v1/KeptWeights.ts';
import type { LeaseRenewed as _stoker_fleet_v1_LeaseRenewed, LeaseRenewed__Output as _stoker_fleet_v1_LeaseRenewed__Output } from './stoker/fleet/v1/LeaseRenewed.ts';
import type { Neighbour as _stoker_fleet_v1_Neighbour, Neighbour__Output as _stoker_fleet_v1_Neighbour__Output } from './stoker/fleet/v1/Neighbour.ts';
import type { Neighbours as _stoker_fleet_v1_Neighbours, Neighbours__Output as _stoker_fleet_v1_Neighbours__Output } from './stoker/fleet/v1/Neighbours.ts';
import type { NetworkInterface as _stoker_fleet_v1_NetworkInterface, NetworkInterface__Output as _stoker_fleet_v1_NetworkInterface__Output } from './stoker/fleet/v1/NetworkInterface.ts';
import type { Prefetch as _stoker_fleet_v1_Prefetch, Prefetch__Output as _stoker_fleet_v1_Prefetch__Output } from './stoker/fleet/v1/Prefetch.ts';
import type { Renew as _stoker_fleet_v1_Renew, Renew__Output as _stoker_fleet_v1_Renew__Output } from './stoker/fleet/v1/Renew.ts';
import type { RenewRequest as _stoker_fleet_v1_RenewRequest, RenewRequest__Output as _stoker_fleet_v1_RenewRequest__Output } from './stoker/fleet/v1/RenewRequest.ts';
import type { Rental as _stoker_fleet_v1_Rental, Rental__Output as _stoker_fleet_v1_Rental__Output } from './stoker/fleet/v1/Rental.ts';
import type { ResendReport as _stoker_fleet_v1_ResendReport, ResendReport__Output as _stoker_fleet_v1_ResendReport__Output } from './stoker/fleet/v1/ResendReport.ts';
import type { UsageAck as _stoker_fleet_v1_UsageAck, UsageAck__Output as _stoker_fleet_v1_UsageAck__Output } from './stoker/fleet/v1/UsageAck.ts';
import type { UsageBatch as _stoker_fleet_v1_UsageBatch, UsageBatch__Output as _stoker_fleet_v1_UsageBatch__Output } from './stoker/fleet/v1/UsageBatch.ts';
import type { Weights as _stoker_fleet_v1_Weights, Weights__Output as _stoker_fleet_v1_Weights__Output } from './stoker/fleet/v1/Weights.ts';
import type { WeightsWanted as _stoker_fleet_v1_WeightsWanted, WeightsWanted__Output as _stoker_fleet_v1_WeightsWanted__Output } from './stoker/fleet/v1/WeightsWanted.ts';
import type { Welcome as _stoker_fleet_v1_Welcome, Welcome__Output as _stoker_fleet_v1_Welcome__Output } from './stoker/fleet/v1/Welcome.ts';

type SubtypeConstructor<Constructor extends new (...args: any) => any, Subtype> = {
  new(...args: ConstructorParameters<Constructor>): Subtype;
};

export interface ProtoGrpcType {
  stoker: {
    fleet: {
      v1: {
        Adapter: MessageTypeDefinition<_stoker_fleet_v1_Adapter, _stoker_fleet_v1_Adapter__Output>
        AdapterReport: MessageTypeDefinition<_stoker_fleet_v1_AdapterReport, _stoker_fleet_v1_AdapterReport__Output>
        AgentInstance: MessageTypeDefinition<_stoker_fleet_v1_AgentInstance, _stoker_fleet_v1_AgentInstance__Output>
        AgentMessage: MessageTypeDefinition<_stoker_fleet_v1_AgentMessage, _stoker_fleet_v1_AgentMessage__Output>
        Certificate: MessageTypeDefinition<_stoker_fleet_v1_Certificate, _stoker_fleet_v1_Certificate__Output>
        Command: MessageTypeDefinition<_stoker_fleet_v1_Command, _stoker_fleet_v1_Command__Output>
        CommandResult: MessageTypeDefinition<_stoker_fleet_v1_CommandResult, _stoker_fleet_v1_CommandResult__Output>
        ContainerRules: MessageTypeDefinition<_stoker_fleet_v1_ContainerRules, _stoker_fleet_v1_ContainerRules__Output>
        ControlMessage: MessageTypeDefinition<_stoker_fleet_v1_ControlMessage, _stoker_fleet_v1_ControlMessage__Output>
        DesiredState: MessageTypeDefinition<_stoker_fleet_v1_DesiredState, _stoker_fleet_v1_DesiredState__Output>
        Disk: MessageTypeDefinition<_stoker_fleet_v1_Disk, _stoker_fleet_v1_Disk__Output>
        EnrollRequest: MessageTypeDefinition<_stoker_fleet_v1_EnrollRequest, _stoker_fleet_v1_EnrollRequest__Output>
        Fleet: SubtypeConstructor<typeof grpc.Client, _stoker_fleet_v1_FleetClient> & { service: _stoker_fleet_v1_FleetDefinition }
        Gpu: MessageTypeDefinition<_stoker_fleet_v1_Gpu, _stoker_fleet_v1_Gpu__Output>
        GpuLoad: MessageTypeDefinition<_stoker_fleet_v1_GpuLoad, _stoker_fleet_v1_GpuLoad__Output>
        GpuProcess: MessageTypeDefinition<_stoker_fleet_v1_GpuProcess, _stoker_fleet_v1_GpuProcess__Output>
        Hello: MessageTypeDefinition<_stoker_fleet_v1_Hello, _stoker_fleet_v1_Hello__Output>
        HostLoad: MessageTypeDefinition<_stoker_fleet_v1_HostLoad, _stoker_fleet_v1_HostLoad__Output>
        HostReport: MessageTypeDefinition<_stoker_fleet_v1_HostReport, _stoker_fleet_v1_HostReport__Output>
        InstanceReport: MessageTypeDefinition<_stoker_fleet_v1_InstanceReport, _stoker_fleet_v1_InstanceReport__Output>
        InstanceSpec: MessageTypeDefinition<_stoker_fleet_v1_InstanceSpec, _stoker_fleet_v1_InstanceSpec__Output>
        Inventory: MessageTypeDefinition<_stoker_fleet_v1_Inventory, _stoker_fleet_v1_Inventory__Output>
        KeptWeights: MessageTypeDefinition<_stoker_fleet_v1_KeptWeights, _stoker_fleet_v1_KeptWeights__Output>
        LeaseRenewed: MessageTypeDefinition<_stoker_fleet_v1_LeaseRenewed, _stoker_fleet_v1_LeaseRenewed__Output>
        Neighbour: MessageTypeDefinition<_stoker_fleet_v1_Neighbour, _stoker_fleet_v1_Neighbour__Output>
        Neighbours: MessageTypeDefinition<_stoker_fleet_v1_Neighbours, _stoker_fleet_v1_Neighbours__Output>
        NetworkInterface: MessageTypeDefinition<_stoker_fleet_v1_NetworkInterface, _stoker_fleet_v1_NetworkInterface__Output>
        Prefetch: MessageTypeDefinition<_stoker_fleet_v1_Prefetch, _stoker_fleet_v1_Prefetch__Output>
        Renew: MessageTypeDefinition<_stoker_fleet_v1_Renew, _stoker_fleet_v1_Renew__Output>
        RenewRequest: MessageTypeDefinition<_stoker_fleet_v1_RenewRequest, _stoker_fleet_v1_RenewRequest__Output>
        Rental: MessageTypeDefinition<_stoker_fleet_v1_Rental, _stoker_fleet_v1_Rental__Output>
        ResendReport: MessageTypeDefinition<_stoker_fleet_v1_ResendReport, _stoker_fleet_v1_ResendReport__Output>
        UsageAck: MessageTypeDefinition<_stoker_fleet_v1_UsageAck, _stoker_fleet_v1_UsageAck__Output>
        UsageBatch: MessageTypeDefinition<_stoker_fleet_v1_UsageBatch, _stoker_fleet_v1_UsageBatch__Output>
        Weights: MessageTypeDefinition<_stoker_fleet_v1_Weights, _stoker_fleet_v1_Weights__Output>
        WeightsWanted: MessageTypeDefinition<_stoker_fleet_v1_WeightsWanted, _stoker_fleet_v1_WeightsWanted__Output>
        Welcome: MessageTypeDefinition<_stoker_fleet_v1_Welcome, _stoker_fleet_v1_Welcome__Output>
      }
    }
  }
}

