//! The job a process is part of, by its cgroup and by what the batch system put into its environment.

use crate::Owner;
use crate::environment::Environment;
use crate::root::{Inside, word};
use gpuwhy_model::Process;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Job {
    pub(crate) system: Option<&'static str>,
    pub(crate) id: Option<String>,
    pub(crate) step: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) queue: Option<String>,
}

/// The names one batch system uses.
struct System {
    name: &'static str,
    id: &'static [&'static str],
    step: &'static [&'static str],
    title: &'static [&'static str],
    user: &'static [&'static str],
    queue: &'static [&'static str],
}

/// Those that own the node first; what runs inside a job of theirs is part of it.
const SYSTEMS: &[System] = &[
    System {
        name: "slurm",
        id: &["SLURM_JOB_ID", "SLURM_JOBID"],
        step: &["SLURM_STEP_ID", "SLURM_STEPID"],
        title: &["SLURM_JOB_NAME"],
        user: &["SLURM_JOB_USER"],
        queue: &["SLURM_JOB_PARTITION"],
    },
    System {
        name: "pbs",
        id: &["PBS_JOBID"],
        step: &["PBS_ARRAY_INDEX"],
        title: &["PBS_JOBNAME"],
        user: &["PBS_O_LOGNAME"],
        queue: &["PBS_QUEUE"],
    },
    System {
        name: "lsf",
        id: &["LSB_JOBID"],
        step: &["LSB_JOBINDEX"],
        title: &["LSB_JOBNAME"],
        user: &["LSFUSER"],
        queue: &["LSB_QUEUE"],
    },
    System { name: "flux", id: &["FLUX_JOB_ID"], step: &[], title: &[], user: &[], queue: &[] },
    // These run on top of any of the others.
    System { name: "ray", id: &["RAY_JOB_ID"], step: &[], title: &[], user: &[], queue: &[] },
    System {
        name: "torchelastic",
        id: &["TORCHELASTIC_RUN_ID"],
        step: &["TORCHELASTIC_RESTART_COUNT"],
        title: &[],
        user: &[],
        queue: &[],
    },
];

/// Labels that controllers put on the pods of a job.
const JOB_LABELS: &[&str] = &[
    "batch.kubernetes.io/job-name",
    "job-name",
    "training.kubeflow.org/job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "volcano.sh/job-name",
    "ray.io/cluster",
];

impl Job {
    /// The kernel's word on which job it is goes before the environment's, whose words are then only taken if they are
    /// of the same job.
    pub(crate) fn of(owner: &Owner, environment: &Environment) -> Job {
        let message: Vec<Job> = SYSTEMS.iter().filter_map(|system| system.message(environment)).collect();
        if let (Some(name), Some(id)) = (owner.job_system, &owner.job_id) {
            let same = |job: &&Job| job.system == Some(name) && job.id.as_deref() == Some(id.as_str());
            let more = message.iter().find(same).cloned().unwrap_or_default();
            return Job {
                system: Some(name),
                id: Some(id.clone()),
                step: owner.job_step.clone().or(more.step),
                ..more
            };
        }
        let ecs = owner.ecs_task.as_ref().map(|task| Job {
            system: Some("ecs"),
            id: Some(task.clone()),
            ..Job::default()
        });
        let batch = message.iter().find(|job| !matches!(job.system, Some("ray" | "torchelastic")));
        batch.cloned().or(ecs).or(message.first().cloned()).unwrap_or_default()
    }

    pub(crate) fn put(self, process: &mut Process) {
        process.job_system = self.system.map(str::to_string);
        process.job_id = self.id;
        process.job_step = self.step;
        process.job_name = self.name;
        process.job_user = self.user;
        process.job_queue = self.queue;
    }
}

impl System {
    fn message(&self, environment: &Environment) -> Option<Job> {
        // torchrun's name for a run that was given none.
        let id = environment.word(self.id).filter(|id| id != "none")?;
        Some(Job {
            system: Some(self.name),
            id: Some(id),
            step: environment.word(self.step),
            name: environment.word(self.title),
            user: environment.word(self.user),
            queue: environment.word(self.queue),
        })
    }
}

/// A pod's labels may name the job that made it; a batch system that owns the node goes before that.
pub(crate) fn take_labels(process: &mut Process, labels: &BTreeMap<String, String>) {
    let replaceable = matches!(process.job_system.as_deref(), None | Some("ray" | "torchelastic"));
    if let Some(id) = JOB_LABELS.iter().find_map(|name| labels.get(*name)).filter(|_| replaceable) {
        Job { system: Some("kubernetes"), id: Some(id.clone()), ..Job::default() }.put(process);
    }
}

/// What the ECS agent wrote for the container, in a file the container's environment names. Its address on the network
/// is never asked.
pub(crate) fn take_ecs(process: &mut Process, environment: &Environment, inside: &Inside) -> Option<()> {
    let metadata = inside.json(environment.get("ECS_CONTAINER_METADATA_FILE")?)?;
    let of = |name: &str| word(metadata.get(name)?.as_str()?);
    // A file that speaks of another container was inherited, or is a lie.
    let container =
        process.container.as_mut().filter(|container| container.runtime.as_deref() != Some("ecs"));
    if let (Some(container), Some(id)) = (container, of("ContainerID")) {
        if container.container_id != id {
            return None;
        }
        container.name = container.name.take().or_else(|| of("ContainerName"));
        container.image = container.image.take().or_else(|| of("ImageName"));
    }
    if matches!(process.job_system.as_deref(), None | Some("ecs" | "ray" | "torchelastic")) {
        let task = of("TaskARN").and_then(|name| name.rsplit('/').next().map(str::to_string));
        let reported = process.job_id.take().filter(|_| process.job_system.as_deref() == Some("ecs"));
        Job {
            system: Some("ecs"),
            id: reported.or(task),
            name: of("TaskDefinitionFamily"),
            queue: of("Cluster"),
            ..Job::default()
        }
        .put(process);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(
        cgroup: &str,
        variables: &str,
    ) -> (Option<&'static str>, Option<String>, Option<String>, Option<String>) {
        let job = Job::of(&Owner::of(cgroup), &Environment::parse(variables.replace(' ', "\0").as_bytes()));
        (job.system, job.id, job.step, job.name)
    }

    #[test]
    fn batch_systems_are_understood() {
        let text = |text: &str| Some(text.to_string());
        let slurm =
            "SLURM_JOB_ID=42 SLURM_STEP_ID=3 SLURM_JOB_NAME=train SLURM_JOB_PARTITION=gpu SLURM_JOB_USER=ada";
        assert_eq!(of("", slurm), (Some("slurm"), text("42"), text("3"), text("train")));
        assert_eq!(
            of("/slurm/uid_1/job_42/step_0", slurm),
            (Some("slurm"), text("42"), text("0"), text("train"))
        );
        // Inherited from another job: the kernel knows better.
        assert_eq!(of("/slurm/uid_1/job_43/step_0", slurm), (Some("slurm"), text("43"), text("0"), None));
        assert_eq!(of("", "PBS_JOBID=9.head PBS_JOBNAME=x"), (Some("pbs"), text("9.head"), None, text("x")));
        assert_eq!(of("", "LSB_JOBID=7 LSB_JOBINDEX=2"), (Some("lsf"), text("7"), text("2"), None));
        assert_eq!(of("", "TORCHELASTIC_RUN_ID=abc"), (Some("torchelastic"), text("abc"), None, None));
        assert_eq!(of("", "TORCHELASTIC_RUN_ID=none"), (None, None, None, None));
        assert_eq!(
            of("", "RAY_JOB_ID=01000000 TORCHELASTIC_RUN_ID=abc"),
            (Some("ray"), text("01000000"), None, None)
        );
        assert_eq!(of("", &format!("RAY_JOB_ID=1 {slurm}")).0, Some("slurm"));
        let task = "0123456789abcdef0123456789abcdef";
        let ecs = format!("/ecs/{task}/{}", "a".repeat(64));
        assert_eq!(of(&ecs, "RAY_JOB_ID=1"), (Some("ecs"), text(task), None, None));
        assert_eq!(of("", ""), (None, None, None, None));
    }

    #[test]
    fn a_pods_labels_name_its_job() {
        let labels = BTreeMap::from([("job-name".to_string(), "train-7".to_string())]);
        let mut process = Process {
            job_system: Some("torchelastic".into()),
            job_id: Some("x".into()),
            ..Process::default()
        };
        take_labels(&mut process, &labels);
        assert_eq!(
            (process.job_system.as_deref(), process.job_id.as_deref()),
            (Some("kubernetes"), Some("train-7"))
        );
        let mut process = Process { job_system: Some("slurm".into()), ..Process::default() };
        take_labels(&mut process, &labels);
        assert_eq!(process.job_system.as_deref(), Some("slurm"));
    }
}
