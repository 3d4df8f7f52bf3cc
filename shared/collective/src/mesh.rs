//! Ranks on a grid: named axes, coordinates, and the groups along an axis.

use crate::{Communicator, Error, Result};
use std::fmt;
use std::sync::Arc;

/// Named axes, the last varies fastest: in `[("dp", 2), ("tp", 4)]`, ranks 0 to 3 are one tp group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mesh {
    axes: Vec<(String, usize)>,
}

impl Mesh {
    /// The mesh with these axes.
    ///
    /// # Errors
    /// No axis, one of size 0, or two of one name.
    pub fn new(axes: &[(&str, usize)]) -> Result<Self> {
        let mesh = Self { axes: axes.iter().map(|&(name, size)| (name.to_owned(), size)).collect() };
        if axes.is_empty() {
            return Err(mesh.wrong("it has no axis; give at least one, of size 1 or more".to_owned()));
        }
        for (index, (name, size)) in axes.iter().enumerate() {
            if *size == 0 {
                return Err(mesh.wrong(format!("{name} = 0: an axis has at least 1 rank")));
            }
            if axes[..index].iter().any(|(other, _)| other == name) {
                return Err(mesh.wrong(format!("two axes are called {name}")));
            }
        }
        if axes.iter().try_fold(1_usize, |product, (_, size)| product.checked_mul(*size)).is_none() {
            return Err(mesh.wrong("it has more ranks than can be counted".to_owned()));
        }
        Ok(mesh)
    }

    /// The mesh of `world` ranks in which the axis `free` takes what the others leave.
    ///
    /// # Errors
    /// The other axes do not divide `world`.
    pub fn filling(world: usize, free: &str, others: &[(&str, usize)]) -> Result<Self> {
        let fixed = Self::new(others)?;
        if world == 0 || !world.is_multiple_of(fixed.size()) {
            let fitting: Vec<_> =
                (1..=world).filter(|size| world.is_multiple_of(*size)).map(|size| size.to_string()).collect();
            let problem =
                format!("it has {} ranks, which do not divide {world}: {} do", fixed.size(), fitting.join(", "));
            return Err(fixed.wrong(problem));
        }
        let mut axes = vec![(free, world / fixed.size())];
        axes.extend_from_slice(others);
        Self::new(&axes)
    }

    /// Ranks in all.
    pub fn size(&self) -> usize {
        self.axes.iter().map(|(_, size)| size).product()
    }

    /// Names and sizes.
    pub fn axes(&self) -> impl Iterator<Item = (&str, usize)> {
        self.axes.iter().map(|(name, size)| (name.as_str(), *size))
    }

    /// The size of an axis.
    ///
    /// # Errors
    /// There is no such axis.
    pub fn axis(&self, name: &str) -> Result<usize> {
        self.position(name).map(|position| self.axes[position].1)
    }

    /// The coordinates of a rank, in the order of the axes.
    ///
    /// # Errors
    /// The mesh has no such rank.
    pub fn coordinates(&self, rank: usize) -> Result<Vec<usize>> {
        if rank >= self.size() {
            return Err(self.wrong(format!("it has no rank {rank}: the last is {}", self.size() - 1)));
        }
        let mut rest = rank;
        let mut coordinates: Vec<_> = self
            .axes
            .iter()
            .rev()
            .map(|(_, size)| {
                let coordinate = rest % size;
                rest /= size;
                coordinate
            })
            .collect();
        coordinates.reverse();
        Ok(coordinates)
    }

    /// The coordinate of a rank along one axis.
    ///
    /// # Errors
    /// No such rank or axis.
    pub fn coordinate(&self, rank: usize, axis: &str) -> Result<usize> {
        Ok(self.coordinates(rank)?[self.position(axis)?])
    }

    /// The rank at `coordinates`.
    ///
    /// # Errors
    /// Not one coordinate per axis, or one outside of its axis.
    pub fn rank(&self, coordinates: &[usize]) -> Result<usize> {
        if coordinates.len() != self.axes.len() {
            let (found, expected) = (coordinates.len(), self.axes.len());
            return Err(self.wrong(format!("{found} coordinates: it has {expected} axes")));
        }
        let mut rank = 0;
        for ((name, size), &coordinate) in self.axes.iter().zip(coordinates) {
            if coordinate >= *size {
                return Err(self.wrong(format!("{name} = {coordinate}: it counts from 0 to {}", size - 1)));
            }
            rank = rank * size + coordinate;
        }
        Ok(rank)
    }

    /// The ranks that differ from `rank` in the given axes only, in ascending order.
    ///
    /// # Errors
    /// No such rank or axis.
    pub fn group(&self, rank: usize, axes: &[&str]) -> Result<Vec<usize>> {
        let color = self.color(rank, axes)?;
        let mut group = Vec::new();
        for other in 0..self.size() {
            if self.color(other, axes)? == color {
                group.push(other);
            }
        }
        Ok(group)
    }

    /// All groups along the given axes, in the order of their first rank.
    ///
    /// # Errors
    /// No such axis.
    pub fn groups(&self, axes: &[&str]) -> Result<Vec<Vec<usize>>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for rank in 0..self.size() {
            let group = self.group(rank, axes)?;
            if group[0] == rank {
                groups.push(group);
            }
        }
        Ok(groups)
    }

    /// This rank's communicator along the given axes. Every rank of `world` must ask for the same axes.
    ///
    /// # Errors
    /// The world does not have the mesh's size; no such axis; the group failed.
    pub fn communicator(&self, world: &dyn Communicator, axes: &[&str]) -> Result<Arc<dyn Communicator>> {
        if world.size() != self.size() {
            return Err(self.wrong(format!("it has {} ranks, the world has {}", self.size(), world.size())));
        }
        world.split(self.color(world.rank(), axes)?, world.rank())
    }

    /// The rank of the group's first member: its coordinates along `axes` set to 0.
    fn color(&self, rank: usize, axes: &[&str]) -> Result<usize> {
        let mut coordinates = self.coordinates(rank)?;
        for axis in axes {
            coordinates[self.position(axis)?] = 0;
        }
        self.rank(&coordinates)
    }

    fn position(&self, name: &str) -> Result<usize> {
        self.axes.iter().position(|(axis, _)| axis == name).ok_or_else(|| {
            let names: Vec<_> = self.axes.iter().map(|(name, _)| name.as_str()).collect();
            self.wrong(format!("it has no axis {name}; its axes are {}", names.join(", ")))
        })
    }

    fn wrong(&self, problem: String) -> Error {
        Error::Mesh { mesh: self.to_string(), problem }
    }
}

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes: Vec<_> = self.axes.iter().map(|(name, size)| format!("{name} {size}")).collect();
        f.write_str(&axes.join(" × "))
    }
}
