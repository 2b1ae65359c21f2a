# LocalStack runs this at each start (/etc/localstack/init/start.d), whichever way its image came.
#
# Without it, EC2's answer for a fleet of two instances or more names the first one only: Karpenter takes the others for a
# lack of capacity, and they run for ever. And no instance of a fleet has the security groups that the launch template
# names, so that Karpenter takes each for outdated and replaces it.
from moto.ec2.models import fleets


def groups_of(fleet, spec):
    template = fleet.ec2_backend.get_launch_template(template_id=spec.launch_template_spec["LaunchTemplateId"])
    data = template.latest_version().data | (spec.overrides or {})
    groups = list(data.get("SecurityGroupIds", []))
    for interface in data.get("NetworkInterfaces", []):
        groups += interface.get("Groups", [])
    return groups


def create_on_demand_requests(fleet, weight_to_add):
    counts, added = fleet.get_launch_spec_counts(weight_to_add)
    for spec, count in counts.items():
        reservation = fleet.ec2_backend.run_instances(
            image_id=spec.image_id,
            count=count,
            instance_type=spec.instance_type,
            is_instance_type_default=False,
            key_name=spec.key_name,
            security_group_names=[],
            security_group_ids=groups_of(fleet, spec),
            user_data=spec.user_data,
            placement=None,
            kernel_id=None,
            ramdisk_id=None,
            monitoring_enabled=spec.monitoring,
            subnet_id=spec.subnet_id,
            fleet_id=fleet.id,
            tags=spec.tag_specifications,
        )
        for instance in reservation.instances:
            fleet.on_demand_instances.append({"id": reservation.id, "instance": instance, "launch_spec": spec})
    fleet.fulfilled_capacity += added


create_spot_requests = fleets.Fleet.create_spot_requests


def create_spot_requests_with_groups(fleet, weight_to_add):
    for spec in fleet.launch_specs:
        spec.group_set = groups_of(fleet, spec)
    return create_spot_requests(fleet, weight_to_add)


fleets.Fleet.create_on_demand_requests = create_on_demand_requests
fleets.Fleet.create_spot_requests = create_spot_requests_with_groups
